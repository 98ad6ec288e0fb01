"""What commits of one record in flight waited for, from what the nodes noted (`loads/timeline.py`).

The critical path of a commit goes through the second replica that made the record durable.  If that is the leader, the
path is its event loop, its fsync, and its event loop again.  A follower adds two messages, and its own event loop and
fsync.  Each part of the path belongs to one cause, so the causes of a commit add up to its time.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from benchmarks.timeline_picture import Events

MESSAGE: Final = "message, until its receiver runs"
NOT_TRACED: Final = "not traced"
FOR_A_PROCESSOR: Final = "waits for a processor"
WRITES: Final = ("write", "overwrite")
"""Spans that every commit has."""
IN_THE_LOOP: Final = (*WRITES, "segment roll", "metrics")
"""Spans in which the event loop does nothing else."""
LOG: Final = ".log"


@attrs.frozen
class Mark:
    """Something that took a node from `began` to `ended`, in nanoseconds."""

    began: int
    ended: int
    what: str = ""
    grew: bool = False
    is_in_loop: bool = False
    ready: float = 0.0
    """Of a turn: the share of its time, without the fsyncs within it, in which the thread waited for a processor."""
    blocked: float = 0.0
    """The same share in which the thread waited for something else: the lock of Python, or the kernel."""


class Marks:
    """Marks by the time at which they began."""

    def __init__(self, marks: Iterable[Mark]) -> None:
        self.marks = sorted(marks, key=lambda mark: mark.began)
        self._begins = [mark.began for mark in self.marks]
        self._longest = max((mark.ended - mark.began for mark in self.marks), default=0)

    def first_from(self, at: int) -> Mark | None:
        """The first one that began then or later."""
        place = bisect_left(self._begins, at)
        return self.marks[place] if place < len(self.marks) else None

    def within(self, began: int, ended: int) -> Iterator[Mark]:
        """Those that overlap this time."""
        for place in range(bisect_left(self._begins, began - self._longest), bisect_left(self._begins, ended)):
            if self.marks[place].ended > began:
                yield self.marks[place]


class Node:
    """What one node noted."""

    def __init__(self, role: str, noted: Sequence[Sequence[Any]]) -> None:
        self.role = role
        by_kind: dict[str, list[Sequence[Any]]] = defaultdict(list)
        for kind, *numbers in noted:
            by_kind[kind].append(numbers)
        synced = [Mark(*event) for event in by_kind["fsync"]]
        self.log_fsyncs = Marks(mark for mark in synced if mark.what.endswith(LOG))
        self.other_fsyncs = Marks(mark for mark in synced if not mark.what.endswith(LOG))
        self.fsyncs_in_loop = Marks(mark for mark in synced if mark.is_in_loop)
        self.turns = Marks(self._turn(*event[:4]) for event in by_kind["turn"])
        self.waits = Marks(Mark(began - waited, began) for began, _, _, _, waited in by_kind["turn"] if waited)
        """Times before turns in which the thread waited for a processor."""
        self.collections = Marks(
            Mark(event[0], event[1], f"garbage collection, generation {event[2]}") for event in by_kind["gc"]
        )
        self.spans = Marks(Mark(*event) for event in by_kind["span"])
        self.blocking = Marks(mark for mark in self.spans.marks if mark.what in IN_THE_LOOP)

    def _turn(self, began: int, ended: int, processor_ns: int, waited_ns: int) -> Mark:
        fsyncs = self.fsyncs_in_loop.within(began, ended)
        taken = ended - began - sum(min(ended, mark.ended) - max(began, mark.began) for mark in fsyncs)
        if taken <= 0:
            return Mark(began, ended)
        off = max(0.0, 1 - processor_ns / taken)
        ready = min(off, waited_ns / taken)
        return Mark(began, ended, ready=ready, blocked=off - ready)


@attrs.frozen
class Commit:
    """One append, from call to return."""

    began: int
    ended: int
    by_cause: Mapping[str, float]
    """Its time in nanoseconds, by what it waited for."""
    beside: frozenset[str]
    """What also happened at one of the nodes meanwhile."""

    @property
    def taken(self) -> int:
        return self.ended - self.began


@attrs.frozen
class _Part:
    """A part of a critical path."""

    kind: Literal["loop", "fsync", "message"]
    node: Node
    """The one whose time it is; of a message the receiver."""
    began: int
    ended: int
    grew: bool = False


def commits_of(events: Events, leader: str, skipped: int) -> list[Commit]:
    """All appends but the first ones, which warm up."""
    nodes = {name: Node("leader" if name == leader else "follower", noted) for name, noted in events.items()}
    followers = [node for node in events if node != leader]
    there = {name: _messages(events[leader], events[name]) for name in followers}
    back = {name: _messages(events[name], events[leader]) for name in followers}
    commits = []
    for _, began, ended in [event for event in events[leader] if event[0] == "append"][skipped:]:
        causes: dict[str, float] = defaultdict(float)
        path = _path(began, ended, nodes, leader, there, back)
        for part in path:
            for cause, taken in _causes(part):
                causes[cause] += taken
        if not path:
            causes[NOT_TRACED] = ended - began
        commits.append(Commit(began, ended, dict(causes), frozenset(_beside(nodes.values(), began, ended))))
    return commits


def _messages(sender: Sequence[Sequence[Any]], receiver: Sequence[Sequence[Any]]) -> Marks:
    """Bytes on their way, from the call that sent them to the one that read the last of them."""
    received: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for event in receiver:
        if event[0] == "received":
            totals, times = received.setdefault((event[3], event[2]), ([], []))
            totals.append(event[4])
            times.append(event[1])
    found = []
    for event in sender:
        if event[0] == "sent" and (event[2], event[3]) in received:
            totals, times = received[event[2], event[3]]
            place = bisect_left(totals, event[4])
            if place < len(totals):
                found.append(Mark(event[1], max(event[1], times[place])))
    return Marks(found)


def _path(
    began: int,
    ended: int,
    nodes: Mapping[str, Node],
    leader: str,
    there: Mapping[str, Marks],
    back: Mapping[str, Marks],
) -> list[_Part]:
    """The critical path of a commit; empty if the events do not show it."""
    first = nodes[leader]
    paths: list[tuple[int, list[_Part]]] = []
    own = first.log_fsyncs.first_from(began)
    if own is not None:
        paths.append((own.ended, [_Part("loop", first, began, own.began), _fsync(first, own)]))
    for name in there:
        node = nodes[name]
        sent = there[name].first_from(began)
        synced = sent and node.log_fsyncs.first_from(sent.ended)
        answered = synced and back[name].first_from(synced.ended)
        if sent and synced and answered:
            parts = [
                _Part("loop", first, began, sent.began),
                _Part("message", node, sent.began, sent.ended),
                _Part("loop", node, sent.ended, synced.began),
                _fsync(node, synced),
                _Part("loop", node, synced.ended, answered.began),
                _Part("message", first, answered.began, answered.ended),
            ]
            paths.append((answered.ended, parts))
    paths.sort(key=lambda path: path[0])
    if len(paths) < 2 or paths[1][0] > ended:
        return []
    durable, parts = paths[1]
    return [*parts, _Part("loop", first, durable, ended)]


def _fsync(node: Node, mark: Mark) -> _Part:
    return _Part("fsync", node, mark.began, mark.ended, mark.grew)


def _causes(part: _Part) -> Iterator[tuple[str, float]]:
    node = part.node
    if part.kind == "fsync":
        yield f"{node.role}: fsync{' of a log that grew' if part.grew else ''}", part.ended - part.began
        return
    left = [(part.began, part.ended)]
    for marks in (node.collections, node.blocking, node.other_fsyncs):
        for mark in marks.within(part.began, part.ended):
            left, taken = _cut(left, mark)
            yield f"{node.role}: {'fsync of ' if marks is node.other_fsyncs else ''}{mark.what}", taken
    for mark in node.turns.within(part.began, part.ended):
        left, taken = _cut(left, mark)
        yield f"{node.role}: event loop", taken * (1 - mark.ready - mark.blocked)
        yield f"{node.role}: event loop, {FOR_A_PROCESSOR}", taken * mark.ready
        yield f"{node.role}: event loop, blocked", taken * mark.blocked
    for mark in node.waits.within(part.began, part.ended):
        left, taken = _cut(left, mark)
        yield f"{node.role}: {FOR_A_PROCESSOR}", taken
    rest = sum(ended - began for began, ended in left)
    yield (MESSAGE if part.kind == "message" else f"{node.role}: until its event loop runs"), rest


def _cut(left: list[tuple[int, int]], mark: Mark) -> tuple[list[tuple[int, int]], int]:
    """Return what of these times is outside of the mark, and how long they are within it."""
    outside, taken = [], 0
    for began, ended in left:
        overlap = min(ended, mark.ended) - max(began, mark.began)
        if overlap <= 0:
            outside.append((began, ended))
            continue
        taken += overlap
        if began < mark.began:
            outside.append((began, mark.began))
        if mark.ended < ended:
            outside.append((mark.ended, ended))
    return outside, taken


def _beside(nodes: Iterable[Node], began: int, ended: int) -> Iterator[str]:
    for node in nodes:
        for marks in (node.collections, node.spans):
            for mark in marks.within(began, ended):
                if mark.what not in WRITES:
                    yield f"{node.role}: {mark.what}"
        for mark in node.other_fsyncs.within(began, ended):
            yield f"{node.role}: fsync of {mark.what}"
        if any(mark.grew for mark in node.log_fsyncs.within(began, ended)):
            yield f"{node.role}: fsync of a log that grew"


@attrs.frozen
class Cause:
    """What commits waited for on average, in milliseconds."""

    what: str
    usual_ms: float
    """Of the half of the commits around the median."""
    rest_ms: float
    """Of all but the slowest."""
    slowest_ms: float
    share: float
    """Of what the slowest took more than those around the median."""


def causes_of_the_slowest(commits: Sequence[Commit], share: float) -> list[Cause]:
    """What the slowest of them waited for, compared with the others; what explains most first."""
    ordered = sorted(commits, key=lambda commit: commit.taken)
    number = max(1, round(len(ordered) * share))
    rest, slowest = ordered[:-number], ordered[-number:]
    usual = ordered[len(ordered) // 4 : max(len(ordered) * 3 // 4, len(ordered) // 4 + 1)]
    excess = _mean_ms(slowest, None) - _mean_ms(usual, None)
    causes = []
    for what in {what for commit in commits for what in commit.by_cause}:
        usual_ms, rest_ms, slowest_ms = (_mean_ms(group, what) for group in (usual, rest, slowest))
        causes.append(Cause(what, usual_ms, rest_ms, slowest_ms, (slowest_ms - usual_ms) / excess if excess else 0.0))
    return sorted(causes, key=lambda cause: (-cause.share, cause.what))


def beside_the_slowest(commits: Sequence[Commit], share: float) -> list[tuple[str, float, float]]:
    """What happened during commits: the share of the slowest that had it, and of the others; the first most first."""
    ordered = sorted(commits, key=lambda commit: commit.taken)
    number = max(1, round(len(ordered) * share))
    groups = ordered[-number:], ordered[:-number]
    found = []
    for what in {what for commit in commits for what in commit.beside}:
        slowest, rest = (sum(what in commit.beside for commit in group) / max(len(group), 1) for group in groups)
        found.append((what, slowest, rest))
    return sorted(found, key=lambda row: (-row[1], row[0]))


def _mean_ms(commits: Sequence[Commit], what: str | None) -> float:
    if not commits:
        return 0.0
    times = [commit.taken if what is None else commit.by_cause.get(what, 0.0) for commit in commits]
    return statistics.fmean(times) / 1e6
