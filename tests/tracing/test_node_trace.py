"""The trace of a node that is embedded: what the application is given, what is logged, how it ends, what is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog

from harness.ports import free_ports
from kraft_trio.application.latest_by_key import LatestByKey
from kraft_trio.config import NodeConfig, parse_config
from kraft_trio.formatting import first_voter, format_node, random_uuid
from kraft_trio.metrics import stall_watch
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.running import open_node
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.tracing.background_file import BackgroundFile
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceHeader, open_trace
from kraft_trio.tracing.node_events import NodeEvents
from kraft_trio.tracing.node_trace import NodeTrace, trace_log_line


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    """A sole voter, formatted."""
    [port] = free_ports(1)
    config = parse_config(
        {
            "node.id": "1",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
            "metadata.log.dir": str(tmp_path / "data"),
        }
    ).config
    format_node(config, cluster_id=random_uuid(), voters=VoterSet([first_voter(config)]))
    return config


def events_of(path: Path) -> list[TraceEvent]:
    with open_trace(path) as (_, events):
        return list(events)


async def test_what_the_state_machine_is_given_is_told(config: NodeConfig, tmp_path: Path) -> None:
    for name in ("first", "second"):
        machine = LatestByKey()
        async with open_node(config, on_commit=machine.on_commit, snapshots=machine, trace=tmp_path / name) as node:
            offsets = await node.append([b"a", b"b"])
            await node.wait_until_applied(offsets[-1])
            snapshot = await node.take_snapshot()
            assert snapshot is not None
    first, second = events_of(tmp_path / "first"), events_of(tmp_path / "second")
    applied = [event.details for event in first if event.kind == "apply"]
    assert [(d["base_offset"], d["next_offset"]) for d in applied] == [(3, 5)]
    assert [event for event in first if event.kind == "load"] == []
    loads = [event.details["to"] for event in second if event.kind == "load"]
    assert loads == [5], "a node that begins with a snapshot is given it"
    assert not any(event.kind == "log" for event in first), "nobody has set up that lines are told"


async def test_lines_of_the_log_are_events_where_that_is_set_up(
    config: NodeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except those of the event loop, which may have several nodes, or none."""
    for limit in ("STALL_MS", "_MARK_AGE_NS"):
        monkeypatch.setattr(stall_watch, limit, 0)
    shown: list[dict[str, Any]] = []

    def show(_logger: object, _method: str, event: dict[str, Any]) -> str:
        shown.append(event)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[trace_log_line, show], cache_logger_on_first_use=False)
    try:
        async with open_node(config, trace=tmp_path / "trace") as node:
            await node.append([b"a"])
        structlog.get_logger().info("nothing of the node's")
    finally:
        structlog.configure(**before)
    told = [(event.cause, event.details) for event in events_of(tmp_path / "trace") if event.kind == "log"]
    lines = [str(event["event"]) for event in shown]
    assert lines.count("event loop stalled") > 0
    of_node = [line for line in lines if line not in ("event loop stalled", "nothing of the node's")]
    assert [cause for cause, _ in told] == of_node, "and they go on to be shown"
    [elected] = [details for cause, details in told if cause == "role" and details["role"] == "Leader"]
    assert (elected["level"], elected["was"], elected["by"]) == ("info", "Candidate", "ELECTION_WON")


async def test_a_node_that_ends_with_an_error_says_so_last(config: NodeConfig, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_node(config, trace=tmp_path / "trace"):
            raise ZeroDivisionError("of the application")
    last = events_of(tmp_path / "trace")[-1]
    assert (last.kind, last.cause) == ("end", "of the application")


class FullFile(BackgroundFile):
    """Has room for what it is told, and keeps it."""

    def __init__(self) -> None:
        self.room = 0
        self.records: list[bytes] = []

    def append(self, record: bytes, *, is_last: bool = False) -> bool:
        if not self.room and not is_last:
            return False
        self.room -= not is_last
        self.records.append(record)
        return True


def test_events_without_room_leave_a_gap_and_are_told_of(tmp_path: Path) -> None:
    file = FullFile()
    times = iter(range(100))
    file.room = 2
    trace = NodeTrace(file, TraceHeader(cluster_id="c", node=1, directory_id="d"), lambda: next(times))
    trace.record("first")
    for number in range(3):
        trace.record("dropped", number=number)
    file.room = 10
    trace.record("after")
    (tmp_path / "trace").write_bytes(b"".join(file.records))
    assert [(event.sequence, event.kind, event.details) for event in events_of(tmp_path / "trace")] == [
        (0, "first", {}),
        (4, "lost", {"events": 3}),
        (5, "after", {}),
    ]


def test_lost_events_are_reported_at_the_end(tmp_path: Path) -> None:
    file = FullFile()
    file.room = 2
    trace = NodeTrace(file, TraceHeader(cluster_id="c", node=1, directory_id="d"), lambda: 0)
    for kind in ("first", "dropped", "dropped"):
        trace.record(kind)
    trace.end("stopped")
    (tmp_path / "trace").write_bytes(b"".join(file.records))
    assert [(event.sequence, event.kind, event.cause, event.details) for event in events_of(tmp_path / "trace")] == [
        (0, "first", "", {}),
        (3, "lost", "no room to keep them", {"events": 2}),
        (4, "end", "stopped", {}),
    ]


def test_no_line_of_the_log_is_more_than_a_trace_can_hold(tmp_path: Path) -> None:
    file = FullFile()
    file.room = 3
    trace = NodeTrace(file, TraceHeader(cluster_id="c", node=1, directory_id="d"), lambda: 0)
    trace.note("log", "opened \udcff", {"path": "/d/\udce9", "sizes": [1, 2**70]})
    (tmp_path / "trace").write_bytes(b"".join(file.records))
    [event] = events_of(tmp_path / "trace")
    assert event.cause == "opened \\udcff"
    assert event.details == {"path": "/d/\\udce9", "sizes": [1, str(2**70)]}


def test_an_append_tells_targets_only_during_a_reassignment() -> None:
    noted: list[dict[str, Any]] = []
    events = NodeEvents(lambda _kind, **details: noted.append(details), 1)
    voters = VoterSet((Voter(ReplicaKey(1)),))
    for target in ((), (ReplicaKey(2), ReplicaKey(3))):
        events.appended(5, 6, 1, True, [(5, VotersRecord(voters, target))])
    assert "targets" not in noted[0]
    assert noted[1]["targets"] == ["2 3"]
