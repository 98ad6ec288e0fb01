"""What killed processes have done after the last event that reached their files.

A node writes its trace five times a second.  What is missing when it is killed shows in its own next start, and in
what other nodes have of it: records, high watermarks, votes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from kraft_trio.tracing.events import Detail, TraceEvent
from scripts.trace_checking.steps import NotTraceableError, several, whole

CAUSE = "killed"

_Request: TypeAlias = tuple[Detail, Detail, Detail]
"""The candidate, the epoch, and whether it is for a pre-vote."""


def completed(traces: Sequence[Sequence[TraceEvent]]) -> list[list[TraceEvent]]:
    """The events of each node, with those that are missing before a start that no end precedes.

    Raises NotTraceableError if the missing events are more than what one role does.
    """
    others = _Others(event for trace in traces for event in trace)
    return [list(_with_missing(trace, others)) for trace in traces]


class _Others:
    """What all nodes have of each other."""

    def __init__(self, events: Iterable[TraceEvent]) -> None:
        self._keys: dict[int | None, str] = {}
        """The replica key of each node's last process so far."""
        self.marks: dict[int | None, set[int]] = {}
        """By epoch, the high watermarks that followers have learned."""
        self.begins: dict[int | None, int] = {}
        """By epoch, where its first record begins."""
        self.voters: dict[tuple[Detail, Detail], str] = {}
        """The voter sets by the epoch and the base offset of their batches."""
        self.answers: list[tuple[TraceEvent, str]] = []
        """Granted votes and pre-votes that candidates have counted, with the candidate's replica key."""
        for event in events:
            self._note(event)

    def _note(self, event: TraceEvent) -> None:
        details = event.details
        match event.kind, event.role:
            case "start", _:
                self._keys[event.node] = str(details["directory_id"])
            case "high_watermark", "Follower":
                self.marks.setdefault(event.epoch, set()).add(event.high_watermark or 0)
            case "append", _:
                epoch, base = event.epoch, whole(details["base_offset"])
                if details["record_epoch"] == epoch:
                    self.begins[epoch] = min(self.begins.get(epoch, base), base)
                for offset, voters in zip(several(details["voters_offsets"]), several(details["voters"]), strict=True):
                    self.voters[details["record_epoch"], whole(offset)] = str(voters)
            case "log", str() if event.cause == "vote answered" and details["granted"]:
                self.answers.append((event, self._keys[event.node]))


def _with_missing(trace: Sequence[TraceEvent], others: _Others) -> Iterator[TraceEvent]:
    told = {_request(event.details) for event in trace if _is_grant(event)}
    begin = 0
    for at, event in enumerate(trace):
        if event.kind == "start":
            process, begin = trace[begin:at], at
            yield from process
            if process and process[-1].kind != "end":
                yield from _missing(process, trace[at:], others, told)
    yield from trace[begin:]


def _is_grant(event: TraceEvent) -> bool:
    return event.kind == "log" and event.cause == "vote requested" and bool(event.details["granted"])


def _request(details: Mapping[str, Detail]) -> _Request:
    return details["candidate"], details["epoch"], details["pre_vote"]


def _missing(
    process: Sequence[TraceEvent], after: Sequence[TraceEvent], others: _Others, told: set[_Request]
) -> Iterator[TraceEvent]:
    last = next((event for event in reversed(process) if event.role is not None), None)
    restart = next((event for event in after if event.kind == "role" and event.details["was"] is None), None)
    is_same_disk = process[0].details.get("directory_id") == after[0].details.get("directory_id")
    if last is None or restart is None or not is_same_disk:
        return
    # As late as possible: what comes after them in other nodes waits for them.
    now = _Now(attrs.evolve(last, time_us=restart.time_us), others)
    end = restart.log_end or 0
    if last.role == "Leader":
        yield from now.wrote(end)
    yield from now.granted(process, told)
    yield from now.moved(restart)
    if last.role != "Leader":
        yield from now.wrote(end)
    yield from now.took_snapshot(process, restart)


class _Now:
    """The node, as its last event shows it; each missing event changes it."""

    def __init__(self, event: TraceEvent, others: _Others) -> None:
        self.event = event
        self._others = others

    def _add(
        self, kind: str, cause: str = CAUSE, details: Mapping[str, Detail] | None = None, **state: Any
    ) -> TraceEvent:
        self.event = attrs.evolve(self.event, kind=kind, cause=cause, details=details or {}, **state)
        return self.event

    def granted(self, process: Sequence[TraceEvent], told: set[_Request]) -> Iterator[TraceEvent]:
        """Votes and pre-votes that candidates have counted, and that the node's processes have not told."""
        for answer, candidate in self._others.answers:
            details = {**answer.details, "candidate": candidate}
            request = _request(details)
            if (
                details["voter_id"] == self.event.node
                and request not in told
                and whole(details["epoch"]) >= (self.event.epoch or 0)
                and answer.time_us >= process[0].time_us
            ):
                if self.event.role == "Leader":
                    raise NotTraceableError(
                        f"node {self.event.node} was killed after it had resigned; expected its events"
                    )
                told.add(request)
                state = {"epoch": details["epoch"], "role": "Unattached", "leader": None}
                yield self._add("log", "vote requested", details, **({} if details["pre_vote"] else state))

    def moved(self, restart: TraceEvent) -> Iterator[TraceEvent]:
        """Into the epoch of the restart, and to its leader."""
        epoch, leader, voted = restart.epoch, restart.details["known_leader"], restart.details["voted"]
        node, was = self.event.node, self.event.role
        is_own = epoch != self.event.epoch and (leader == node or str(voted).partition("-")[0] == str(node))
        if is_own or (leader == node and was != "Leader"):
            raise NotTraceableError(f"node {node} was killed while it campaigned in epoch {epoch}; expected its events")
        if leader not in (None, node) and (epoch != self.event.epoch or was not in ("Follower", "Prospective")):
            details: dict[str, Detail] = {"was": was, "voted": voted, "known_leader": leader}
            yield self._add("role", details=details, epoch=epoch, role="Follower", leader=leader)
        elif epoch != self.event.epoch:
            details = {"was": was, "voted": None, "known_leader": leader}
            yield self._add("role", details=details, epoch=epoch, role="Unattached", leader=None)

    def wrote(self, end: int) -> Iterator[TraceEvent]:
        """Its log up to `end` (exclusive), and what a leader has committed of it."""
        base, epoch = self.event.log_end or 0, self.event.epoch
        known = self._others.voters
        sets = sorted(whole(offset) for at, offset in known if at == epoch and base < whole(offset) < end)
        if end > base:
            for begin, until in zip([base, *sets], [*sets, end], strict=True):
                voters = [(begin, known[epoch, begin])] if (epoch, begin) in known else []
                details: dict[str, Detail] = {
                    **{"base_offset": begin, "next_offset": until, "record_epoch": None},
                    **{"voters_offsets": [at for at, _ in voters], "voters": [keys for _, keys in voters]},
                }
                yield self._add("append", details=details, log_end=until)
        elif end < base:
            yield self._add("truncate", details={"to": end}, log_end=end, synced_end=end)
        if end > (self.event.synced_end or 0):
            yield self._add("sync", synced_end=end)
        if self.event.role == "Leader":
            for mark in sorted(self._others.marks.get(epoch, ())):
                if max(self.event.high_watermark or 0, self._others.begins.get(epoch, 0)) < mark <= end:
                    yield self._add("high_watermark", high_watermark=mark)

    def took_snapshot(self, process: Sequence[TraceEvent], restart: TraceEvent) -> Iterator[TraceEvent]:
        """The restarted node begins with the high watermark of its newest snapshot."""
        end = restart.high_watermark or 0
        ids = [event.details["snapshot_id"] for event in process if "snapshot_id" in event.details]
        if end and not any(str(snapshot_id).partition("@")[0] == str(end) for snapshot_id in ids):
            if end > (self.event.high_watermark or 0):
                yield self._add("high_watermark", high_watermark=end)
            yield self._add("log", "snapshot taken", {"snapshot_id": f"{end}@0"})
