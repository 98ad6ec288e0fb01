"""Puts the traces of the nodes of a quorum into one order, although their clocks are apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from kraft_trio.tracing.events import TraceEvent

_CAMPAIGNING: Final = ("Prospective", "Candidate")


@attrs.define
class _Known:
    """What has happened so far, as far as other nodes wait for it."""

    leaders: set[tuple[int | None, int | None]] = attrs.Factory(set)
    """Each leader with its epoch."""
    asking: set[tuple[str, object]] = attrs.Factory(set)
    """Each replica id that campaigns, with its epoch."""
    granted: set[tuple[object, object, str, object]] = attrs.Factory(set)
    """Who has granted in which epoch which id its vote or pre-vote."""
    epochs: set[int | None] = attrs.Factory(set)
    appended: dict[int | None, int] = attrs.Factory(dict)
    """By epoch, the end of the log of its leader."""
    committed: dict[int | None, int] = attrs.Factory(dict)
    synced: dict[tuple[int | None, int | None], int] = attrs.Factory(dict)
    """By node and epoch, what it has synced in that epoch."""

    def allows(self, event: TraceEvent) -> bool:
        """Whether everything has happened that other nodes must have done before."""
        end, epoch = event.log_end or 0, event.epoch
        majority = len(event.voters or ()) // 2 + 1
        match event.kind, event.role:
            case "role", "Follower":
                return event.leader is None or (event.leader, epoch) in self.leaders
            case "role", "Unattached" if event.details["voted"] is not None and event.details["was"] is not None:
                voted = _id(event.details["voted"])
                return voted == str(event.node) or (voted, epoch) in self.asking
            case "role", "Unattached":
                return epoch in self.epochs or event.details["was"] in (None, "Resigned")
            case "append", "Follower":
                return self.appended.get(epoch, 0) >= end
            case "replace", _:
                return self.appended.get(epoch, 0) >= end and max(self.committed.values(), default=0) >= end
            case "high_watermark", "Follower":
                return self.committed.get(epoch, 0) >= (event.high_watermark or 0)
            case "high_watermark", "Leader":
                ends = [self.synced.get((node, epoch), 0) for node in event.voters or ()]
                return sum(end >= (event.high_watermark or 0) for end in ends) >= majority
            case "log", _ if event.cause == "vote requested" and event.details["granted"]:
                return (_id(event.details["candidate"]), event.details["epoch"]) in self.asking
            case "log", _ if event.cause == "vote answered" and event.details["granted"]:
                told = event.details
                return (told["voter_id"], told["epoch"], str(event.node), told["pre_vote"]) in self.granted
        return True

    def note(self, event: TraceEvent) -> None:
        if event.kind == "sync":
            # What a follower has synced in older epochs may not be its leader's.
            self.synced[event.node, event.epoch] = event.synced_end or 0
        if event.role == "Leader":
            if event.kind in ("append", "end"):
                # A step of the specification elects a leader and appends its first record.
                self.leaders.add((event.node, event.epoch))
            self.appended[event.epoch] = max(self.appended.get(event.epoch, 0), event.log_end or 0)
            self.committed[event.epoch] = max(self.committed.get(event.epoch, 0), event.high_watermark or 0)
        if event.role in _CAMPAIGNING:
            self.asking.add((str(event.node), event.epoch))
        self.epochs.add(event.epoch)
        if event.kind == "log" and event.cause == "vote requested" and event.details["granted"]:
            told = event.details
            self.granted.add((event.node, told["epoch"], _id(told["candidate"]), told["pre_vote"]))


def _id(key: object) -> str:
    return str(key).partition("-")[0]


def merged(traces: Iterable[Sequence[TraceEvent]]) -> list[TraceEvent]:
    """The events of all nodes, each node's in its own order, and no effect before its cause in another node.

    Among what is possible, the event with the earliest time comes first; so does the earliest of all if nothing is
    possible, because then the traces are false.  Events are numbered anew.
    """
    waiting = [deque(trace) for trace in traces if trace]
    known, found = _Known(), list[TraceEvent]()
    while waiting:
        possible = [trace for trace in waiting if known.allows(trace[0])] or waiting
        chosen = min(possible, key=lambda trace: trace[0].time_us)
        event = chosen.popleft()
        known.note(event)
        found.append(attrs.evolve(event, sequence=len(found)))
        waiting = [trace for trace in waiting if trace]
    return found
