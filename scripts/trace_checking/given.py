"""Reads the files that the command is given, and refuses those that the check would misread.

A file may hold anything.  docs/reference/traces.md describes the events; what the check reads of them is here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kraft_trio.simulation.facts.actions import ROLES
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceFileError, TraceHeader, open_trace
from scripts.trace_checking.killed import completed
from scripts.trace_checking.merging import merged
from scripts.trace_checking.steps import NotTraceableError

_KEY: Final = re.compile(r"[0-9]+(-[A-Za-z0-9_-]+)?")
_SNAPSHOT: Final = re.compile(r"[0-9]+@[0-9]+")

_Kind = tuple[str, Callable[[Any], bool]]
"""What is expected, and whether a value is that."""


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def _is_list_of(is_one: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_one, value))


def _or_none(kind: _Kind) -> _Kind:
    return f"{kind[0]}, or nothing", lambda value: value is None or kind[1](value)


_NUMBER: Final[_Kind] = ("a whole number of 0 or more", _is_number)
_REPLICA: Final[_Kind] = ("a node id with a directory id", _is_key)
_FLAG: Final[_Kind] = ("true or false", lambda value: isinstance(value, bool))
_TEXT: Final[_Kind] = ("a text", lambda value: isinstance(value, str))
_ROLE: Final[_Kind] = (f"one of {', '.join(ROLES)}", lambda value: value in ROLES)
_OFFSETS: Final[_Kind] = ("a list of offsets", _is_list_of(_is_number))
_SETS: Final[_Kind] = (
    "a list of voter sets, each with its replicas",
    _is_list_of(lambda voters: isinstance(voters, str) and bool(voters) and all(map(_is_key, voters.split(" ")))),
)
_ID: Final[_Kind] = (
    "END@EPOCH",
    lambda value: isinstance(value, str) and _SNAPSHOT.fullmatch(value) is not None,
)

_STATE: Final[Mapping[str, _Kind]] = {
    "role": _ROLE,
    "epoch": _NUMBER,
    "leader": _or_none(_NUMBER),
    "log_end": _NUMBER,
    "synced_end": _NUMBER,
    "high_watermark": _or_none(_NUMBER),
}
_DETAILS: Final[Mapping[tuple[str, str | None], Mapping[str, _Kind]]] = {
    ("start", None): {"directory_id": _REPLICA},
    ("role", None): {"was": _or_none(_ROLE), "voted": _or_none(_REPLICA), "known_leader": _or_none(_NUMBER)},
    ("append", None): {
        "base_offset": _NUMBER,
        "record_epoch": _NUMBER,
        "voters_offsets": _OFFSETS,
        "voters": _SETS,
    },
    ("trim", None): {"to": _NUMBER},
    ("log", "role"): {"role": _TEXT, "reason": _or_none(_TEXT), "by": _TEXT},
    ("log", "vote requested"): {"candidate": _REPLICA, "epoch": _NUMBER, "pre_vote": _FLAG, "granted": _FLAG},
    ("log", "vote answered"): {"voter_id": _NUMBER, "epoch": _NUMBER, "pre_vote": _FLAG, "granted": _FLAG},
    ("log", "snapshot taken"): {"snapshot_id": _ID},
}
"""By kind, and for logs by what they log, the details that the check reads."""


def simulated(file: Path) -> list[TraceEvent]:
    """The events of a run of the simulator.  Raises NotTraceableError, TraceFileError and OSError."""
    header, events = _read(file)
    if not header.is_simulated:
        raise NotTraceableError(f"{file}: the trace of a node; expected --quorum, and the files of all nodes")
    return events


def quorum(files: Sequence[Path]) -> list[TraceEvent]:
    """The events of a quorum, whose nodes have written these files.  A node's files are in the order of their times.

    The last record of a killed node may be cut short.
    Raises NotTraceableError, TraceFileError and OSError.
    """
    clusters: dict[str | None, Path] = {}
    begins: list[tuple[TraceEvent, Path]] = []
    traces: list[list[TraceEvent]] = []
    for file in files:
        header, events = _read(file, may_be_cut=True)
        if header.is_simulated:
            raise NotTraceableError(f"{file}: the trace of a simulated run; expected that of a node, or no --quorum")
        clusters.setdefault(header.cluster_id, file)
        if len(clusters) > 1:
            (cluster, other), *_ = clusters.items()
            raise NotTraceableError(f"{file}: cluster id {header.cluster_id}; expected {cluster}, which {other} has")
        if not events:
            continue
        for event, other in begins:
            if event == events[0]:
                raise NotTraceableError(f"{file}: begins as {other} does; expected each trace once")
        begins.append((events[0], file))
        traces.append(events)
    by_node: dict[int | None, list[TraceEvent]] = {}
    for events in sorted(traces, key=lambda events: events[0].time_us):
        by_node.setdefault(events[0].node, []).extend(events)
    return merged(completed(list(by_node.values())))


def _read(file: Path, *, may_be_cut: bool = False) -> tuple[TraceHeader, list[TraceEvent]]:
    """The header and all events.  With `may_be_cut`, those before a record that is cut short."""
    if file.is_dir():
        raise NotTraceableError(f"{file}: a directory; expected a trace, or --logs")
    found: list[TraceEvent] = []
    started: set[int | None] = set()
    with open_trace(file) as (header, events):
        try:
            for event in events:
                _check(file, event)
                if event.kind == "start":
                    started.add(event.node)
                if event.sequence != len(found):
                    raise _refused(file, event, f"expected event {len(found)}, which is lost")
                if event.role is not None and event.node not in started:
                    raise _refused(file, event, f"node {event.node} has not started; expected its events from then on")
                found.append(event)
        except TraceFileError as error:
            if not may_be_cut or ": cut short;" not in str(error):
                raise
    return header, found


def _check(file: Path, event: TraceEvent) -> None:
    if event.node is None:
        return
    read = _DETAILS.get((event.kind, event.cause if event.kind == "log" else None), {})
    for name, kind in read.items():
        if name not in event.details:
            raise _refused(file, event, f"without {name}; expected {kind[0]}")
        _expect(file, event, name, event.details[name], kind)
    for name, kind in _STATE.items() if event.role is not None else ():
        _expect(file, event, name, getattr(event, name), kind)
    if event.kind == "append":
        offsets, voters = event.details["voters_offsets"], event.details["voters"]
        assert isinstance(offsets, list)
        assert isinstance(voters, list)
        if len(offsets) != len(voters):
            raise _refused(file, event, f"{len(voters)} voters; expected {len(offsets)}, as many as voters_offsets")


def _expect(file: Path, event: TraceEvent, name: str, value: object, kind: _Kind) -> None:
    expected, is_it = kind
    if not is_it(value):
        raise _refused(file, event, f"{name} {value!r}; expected {expected}")


def _refused(file: Path, event: TraceEvent, why: str) -> NotTraceableError:
    what = f"{event.kind} {event.cause!r}" if event.kind == "log" else event.kind
    return NotTraceableError(f"{file}: event {event.sequence}, {what}: {why}")
