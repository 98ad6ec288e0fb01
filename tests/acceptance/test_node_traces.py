"""`kraft server start --trace`: what nodes write of themselves is what their logs show, also where they are killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.quorum import Quorum
from harness.waiting import wait_until
from kraft_trio.storage.batches.batch import peek_header
from kraft_trio.tracing.events import Detail, TraceEvent
from kraft_trio.tracing.files import TraceFileError, TraceHeader, open_trace
from tests.acceptance.conftest import MakeQuorum


def trace_of(node: NodeProcess) -> Path:
    return node.directory.with_suffix(".trace")


def start(node: NodeProcess) -> None:
    node.start(options=["--trace", str(trace_of(node))])


@pytest.fixture
def quorum(make_quorum: MakeQuorum) -> Quorum:
    """Three voters, each with a trace next to its directory."""
    quorum = make_quorum()
    for node in quorum.nodes.values():
        start(node)
    for node in quorum.nodes.values():
        node.wait_until_listening()
    return quorum


def read(path: Path) -> tuple[TraceHeader, list[TraceEvent]]:
    """The whole records of a trace, of which the last may be cut."""
    found: list[TraceEvent] = []
    with open_trace(path) as (header, events):
        with suppress(TraceFileError):
            found += iter(events)
    return header, found


def batches_of(log: bytes) -> Iterator[tuple[int, int, int]]:
    """Base offset, next offset and epoch of every batch."""
    position = 0
    while position < len(log):
        header = peek_header(log, position)
        yield header.base_offset, header.next_offset, header.leader_epoch
        position += header.size_in_bytes


def told_ends(events: list[TraceEvent]) -> dict[int, int]:
    """The epoch of the last record before each offset at which the appends ended, as far as they were not truncated."""
    epochs: dict[int, int] = {}
    log_end = 0
    for event in events:
        if event.kind == "append":
            begin, end, epoch = (event.details[name] for name in ("base_offset", "next_offset", "record_epoch"))
            assert isinstance(end, int)
            assert isinstance(epoch, int)
            assert begin == log_end < end, "each append begins at the end of the log"
            log_end, epochs[end] = end, epoch
        elif event.kind == "truncate":
            to = event.details["to"]
            assert isinstance(to, int)
            assert (event.high_watermark or 0) <= to < log_end, "a truncation takes some of the uncommitted records"
            log_end = to
            epochs = {end: epoch for end, epoch in epochs.items() if end <= to}
    assert log_end == events[-1].log_end
    return epochs


@pytest.mark.rotating(5)
def test_traces_tell_what_the_logs_hold(quorum: Quorum) -> None:
    for number in range(20):
        quorum.produce([f"{number}-a", f"{number}-b"])
    log = quorum.assert_logs_equal()
    leader, described = quorum.described_by_leader()
    for node in quorum.nodes.values():
        assert node.stop(signal.SIGTERM) == 0
    ends = {next_offset: epoch for _, next_offset, epoch in batches_of(log)}
    winners: dict[Detail, int] = {}
    follows: list[tuple[Detail, Detail]] = []
    for node in quorum.nodes.values():
        header, events = read(trace_of(node))
        assert (header.cluster_id, header.node, header.is_simulated) == (quorum.cluster_id, node.id, False)
        assert [event.sequence for event in events] == list(range(len(events)))
        assert [event.time_us for event in events] == sorted(event.time_us for event in events)
        assert {event.node for event in events} == {node.id}
        assert (events[0].kind, events[-1].kind, events[-1].cause) == ("start", "end", "stopped")
        assert events[0].details["directory_id"] == f"{node.id}-{header.directory_id}"
        in_log = {end: epoch for end, epoch in told_ends(events).items() if end <= max(ends)}
        assert in_log
        assert in_log.items() <= ends.items(), "each append ends where a batch does"
        committed = [event.high_watermark or 0 for event in events if event.kind == "high_watermark"]
        assert committed == sorted(set(committed)), "each is an advance"
        assert described.high_watermark in committed or node is not leader
        assert events[-1].synced_end is not None
        assert events[-1].synced_end >= max(ends)
        assert events[-1].voters == (1, 2, 3)
        became = [event.details for event in events if event.cause == "role"]
        won = [details["epoch"] for details in became if details["by"] == "ELECTION_WON"]
        assert not winners.keys() & set(won), "each epoch has one leader"
        winners.update(dict.fromkeys(won, node.id))
        follows += [(d["epoch"], d["leader_id"]) for d in became if d["by"] == "LEADER_DISCOVERED"]
    assert winners[described.leader_epoch] == leader.id
    assert follows
    assert all(winners[epoch] == leader_id for epoch, leader_id in follows), "nodes follow the leader of their epoch"


def wait_until_written(node: NodeProcess, committed: int) -> None:
    """Wait until the trace has so much committed, or more if a leader was elected, while the node runs."""

    def is_written() -> bool:
        return any(
            event.kind == "high_watermark" and (event.high_watermark or 0) >= committed
            for event in read(trace_of(node))[1]
        )

    wait_until("the trace has the commit", is_written)


@pytest.mark.rotating(5)
def test_a_killed_nodes_trace_reaches_its_last_moments(quorum: Quorum) -> None:
    quorum.produce(["before"])
    leader = quorum.leader()
    end = quorum.wait_until_caught_up()

    wait_until_written(leader, end)
    leader.kill()
    _, first = read(trace_of(leader))
    assert first[-1].kind != "end"
    start(leader)
    leader.wait_until_listening()
    quorum.produce(["after"])
    end = quorum.wait_until_caught_up()
    wait_until_written(leader, end)
    assert leader.stop(signal.SIGTERM) == 0
    assert read(trace_of(leader).with_name(f"{trace_of(leader).name}.1"))[1] == first, "it is renamed, not overwritten"
    _, second = read(trace_of(leader))
    in_order = [event.kind for event in second if event.kind != "log"]
    assert in_order[0] == "start", "only what opening the directory logs comes before"
    assert (second[-1].high_watermark or 0) >= end


@pytest.mark.rotating(5)
def test_a_full_disk_for_the_trace_keeps_no_node_from_running(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(voters=1)
    node = quorum.nodes[1]
    node.start(options=["--trace", "/dev/full"])
    node.wait_until_listening()
    for number in range(5):
        quorum.produce([str(number)])

    def complaints() -> list[dict[str, object]]:
        return [event for event in node.log_events() if event["event"] == "trace cannot be written"]

    [said] = wait_until("the log says so", complaints)
    assert (said["path"], said["reason"], said["level"]) == ("/dev/full", "No space left on device", "warning")
    quorum.produce(["after"])
    assert node.stop(signal.SIGTERM) == 0
    assert len(complaints()) == 1


def test_a_trace_that_cannot_be_made_is_told_at_the_start(make_quorum: MakeQuorum, tmp_path: Path) -> None:
    node = make_quorum(voters=1).nodes[1]
    path = tmp_path / "none" / "trace"
    node.start(options=["--trace", str(path)])
    assert node.wait() == 1
    assert node.log_text().endswith(f"kraft: error: {path}: No such file or directory\n")
