"""Traces as files: what is written is read again, what is damaged is told from what is not a trace; the document."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import msgpack
import pytest

from kraft_trio.tracing.events import NodeState, Trace, TraceEvent
from kraft_trio.tracing.files import TraceFileError, TraceHeader, TraceWriter, open_trace

HEADER = TraceHeader(7, "kraft simulate --seed 7", "seed 7\nvoters 1 2 3\n")
DOCUMENT = (Path(__file__).parents[2] / "docs" / "reference" / "traces.md").read_text()


def trace_of_three_events(*, node_state: NodeState) -> tuple[Trace, list[TraceEvent]]:
    times = iter([0, 1500, 60_000_000])
    trace = Trace(lambda: next(times), lambda _node: node_state)
    events: list[TraceEvent] = []
    trace.listeners.append(events.append)
    return trace, events


def write_three_events(path: Path, *, ndjson: bool) -> list[TraceEvent]:
    trace, events = trace_of_three_events(node_state=NodeState(3, "Follower", 1, 12, 10, 9, (1, 2, 3)))
    with TraceWriter(path, HEADER, ndjson=ndjson) as writer:
        writer.attach(trace)
        trace.record("fault", cause="isolate 1", hosts=["node-1"], silent=True)
        trace.record("role", node=2, cause="fetch timeout", was="Follower", ratio=0.5, none=None)
        trace.record("log", node=3, cause="schön \x00", data=b"\xff", nested=[[1, "a"], []])
    return events


@pytest.mark.parametrize("ndjson", [False, True])
def test_what_is_written_is_read_again(tmp_path: Path, ndjson: bool) -> None:
    written = write_three_events(tmp_path / "trace", ndjson=ndjson)
    with open_trace(tmp_path / "trace") as (header, events):
        assert header == HEADER
        assert list(events) == written
    assert [event.sequence for event in written] == [0, 1, 2]
    assert written[1].voters == (1, 2, 3)


def test_the_last_events_are_those_that_listeners_heard() -> None:
    trace = Trace(lambda: 1500, lambda _node: NodeState(3, "Follower", 1, 12, 10, 9, (1, 2, 3)))
    heard: list[TraceEvent] = []
    trace.record("fault", cause="isolate 1", hosts=["node-1"], silent=True)
    trace.listeners.append(heard.append)
    trace.record("role", node=2, cause="fetch timeout", was="Follower", ratio=0.5, none=None)
    trace.record("log", node=3, cause="started")
    trace.record("sync", node=2, data=b"\xff", voters=(1, 2))
    assert trace.last_events([2], 2) == [heard[0], heard[2]]
    assert [event.sequence for event in trace.last_events([2, 3], 10)] == [0, 1, 2, 3]
    assert heard[2].details == {"data": "\\xff", "voters": [1, 2]}


def test_lines_of_json_are_objects_with_the_fields_of_the_class(tmp_path: Path) -> None:
    write_three_events(tmp_path / "trace", ndjson=True)
    header, *events = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    assert (header["format"], header["version"], header["seed"]) == ("kraft-trio trace", 1, 7)
    assert [list(event) for event in events] == [[field.name for field in attrs.fields(TraceEvent)]] * 3
    assert events[1]["voters"] == [1, 2, 3]


@pytest.mark.parametrize("ndjson", [False, True])
def test_a_header_has_either_a_node_or_a_seed(tmp_path: Path, ndjson: bool) -> None:
    of_node = TraceHeader(cluster_id="fMCL8kv1SWm87L_Md-I2hg", node=0, directory_id="AAAAAAAAAAAAAAAAAAAAAQ")
    for header, is_simulated in ((of_node, False), (HEADER, True)):
        TraceWriter(tmp_path / "trace", header, ndjson=ndjson).close()
        with open_trace(tmp_path / "trace") as (read, _):
            assert read == header
            assert read.is_simulated is is_simulated
    written = (
        json.loads((tmp_path / "trace").read_text()) if ndjson else msgpack.unpackb((tmp_path / "trace").read_bytes())
    )
    assert list(written) == ["seed", "command", "script", "format", "version"], "readers of before refuse other fields"


def test_a_closed_writer_has_written_all_events(tmp_path: Path) -> None:
    trace, events = trace_of_three_events(node_state=NodeState())
    writer = TraceWriter(tmp_path / "trace", HEADER)
    writer.attach(trace)
    trace.record("start", node=1)
    writer.close()
    writer.close()
    with open_trace(tmp_path / "trace") as (_, read):
        assert list(read) == events


def test_an_empty_run_has_a_header(tmp_path: Path) -> None:
    TraceWriter(tmp_path / "trace", HEADER).close()
    with open_trace(tmp_path / "trace") as (header, events):
        assert header == HEADER
        assert list(events) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty; expected a header of format 'kraft-trio trace'"),
        (b"\x93\x01\x02\x03", "record 1: not a trace; expected a header of format 'kraft-trio trace'"),
        (b'{"seed": 1}\n', "record 1: not a trace; expected a header of format 'kraft-trio trace'"),
        (b'{"format": "kraft-trio trace", "version": 2}\n', "record 1: version 2; expected 1"),
        (
            b'{"format": "kraft-trio trace", "version": 1}\n',
            "record 1: of nobody; expected `seed`, of a simulated run, or ",
        ),
        (
            b'{"format": "kraft-trio trace", "version": 1, "seed": 1, "wood": 2}\n',
            "record 1: extra fields found (wood)",
        ),
        (b"{not json\n", "record 1: Expecting property name enclosed in double quotes"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(TraceFileError, match=re.escape(f"{path}: {reason}")):
        open_trace(path).__enter__()


def without_the_last_byte(content: bytes) -> bytes:
    return content[:-1]


def with_a_foreign_field(content: bytes) -> bytes:
    return changed_last_record(content, lambda record: {**record, "x": 1})


def without_an_epoch(content: bytes) -> bytes:
    return changed_last_record(content, lambda record: {name: record[name] for name in record if name != "epoch"})


def changed_last_record(content: bytes, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    if content.startswith(b"{"):
        *lines, last = content.splitlines(keepends=True)
        return b"".join(lines) + json.dumps(change(json.loads(last))).encode() + b"\n"
    *records, last_record = msgpack.Unpacker(io.BytesIO(content))
    return b"".join(map(msgpack.packb, [*records, change(last_record)]))


@pytest.mark.parametrize("ndjson", [False, True])
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (without_the_last_byte, "cut short; expected"),
        (with_a_foreign_field, "extra fields found (x)"),
        (without_an_epoch, "required field missing @ $.epoch"),
    ],
)
def test_records_before_a_damaged_one_are_read(
    tmp_path: Path, ndjson: bool, damage: Callable[[bytes], bytes], reason: str
) -> None:
    path = tmp_path / "trace"
    written = write_three_events(path, ndjson=ndjson)
    path.write_bytes(damage(path.read_bytes()))
    with open_trace(path) as (_, events):
        assert [next(events), next(events)] == written[:2]
        with pytest.raises(TraceFileError, match=re.escape(f"{path}: record 4: {reason}")):
            next(events)


TYPES = {
    int: "int",
    str: "str",
    int | None: "int?",
    str | None: "str?",
    tuple[int, ...] | None: "list of int?",
    attrs.fields(attrs.resolve_types(TraceEvent)).details.type: "map",
}


@pytest.mark.parametrize("cls", [TraceHeader, TraceEvent])
def test_the_document_has_every_field(cls: type[attrs.AttrsInstance]) -> None:
    section = DOCUMENT.partition(f"## {cls.__name__}")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
    assert rows == [(field.name, TYPES[field.type]) for field in attrs.fields(attrs.resolve_types(cls))]
