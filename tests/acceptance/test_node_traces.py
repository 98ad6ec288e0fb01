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
from kraft_trio.storage.batch import peek_header
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceFileError, TraceHeader, open_trace
from tests.acceptance.conftest import MakeQuorum


def trace_of(node: NodeProcess) -> Path:
    return node.directory.with_suffix(".trace")


def start(node: NodeProcess) -> None:
    node.start(options=["--trace", str(trace_of(node))])


@pytest.fixture
def quorum(make_quorum: MakeQuorum) -> Quorum:
    """Three voters, each with a trace beside its directory."""
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


def test_traces_tell_what_the_logs_hold(quorum: Quorum) -> None:
    for number in range(20):
        quorum.produce([f"{number}-a", f"{number}-b"])
    end = quorum.wait_until_caught_up()
    leader = quorum.leader()
    log = quorum.assert_logs_equal()
    for node in quorum.nodes.values():
        assert node.stop(signal.SIGTERM) == 0
    for node in quorum.nodes.values():
        header, events = read(trace_of(node))
        assert (header.cluster_id, header.node, header.is_simulated) == (quorum.cluster_id, node.id, False)
        assert [event.sequence for event in events] == list(range(len(events)))
        assert [event.time_us for event in events] == sorted(event.time_us for event in events)
        assert {event.node for event in events} == {node.id}
        assert (events[0].kind, events[-1].kind, events[-1].cause) == ("start", "end", "stopped")
        assert events[0].details["directory_id"] == f"{node.id}-{header.directory_id}"
        appended = [event.details for event in events if event.kind == "append"]
        told = [(d["base_offset"], d["next_offset"]) for d in appended]
        assert [begin for begin, _ in told] == [0, *(next_offset for _, next_offset in told[:-1])]
        ends = {next_offset: epoch for _, next_offset, epoch in batches_of(log)}
        in_log = [d for d in appended if isinstance(d["next_offset"], int) and d["next_offset"] <= end]
        assert in_log
        assert all(ends[d["next_offset"]] == d["record_epoch"] for d in in_log), "each append ends where a batch does"
        committed = [event.high_watermark or 0 for event in events if event.kind == "high_watermark"]
        assert committed == sorted(set(committed)), "each is an advance"
        assert end in committed or node is not leader
        assert events[-1].synced_end is not None
        assert events[-1].synced_end >= end
        assert events[-1].voters == (1, 2, 3)
        became = [event.details["by"] for event in events if event.cause == "role"]
        assert ("ELECTION_WON" if node is leader else "LEADER_DISCOVERED") in became


def test_a_killed_nodes_trace_reaches_its_last_moments(quorum: Quorum) -> None:
    quorum.produce(["before"])
    leader = quorum.leader()
    end = quorum.wait_until_caught_up()

    def has_written_it() -> bool:
        return any(
            event.kind == "high_watermark" and event.high_watermark == end for event in read(trace_of(leader))[1]
        )

    wait_until("the trace has the commit while the node runs", has_written_it)
    leader.kill()
    _, first = read(trace_of(leader))
    assert first[-1].kind != "end"
    start(leader)
    leader.wait_until_listening()
    quorum.produce(["after"], quorum.leader())
    end = quorum.wait_until_caught_up()
    assert leader.stop(signal.SIGTERM) == 0
    assert read(trace_of(leader).with_name(f"{trace_of(leader).name}.1"))[1] == first, "it is renamed, not overwritten"
    _, second = read(trace_of(leader))
    assert second[0].kind == "start"
    assert second[-1].high_watermark == end


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
