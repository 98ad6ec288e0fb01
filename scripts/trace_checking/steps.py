"""Turns the events of a trace into the steps that spec/Traces.tla replays."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import attrs

from kraft_trio.tracing.events import TraceEvent

NOBODY: Final = "nobody"

_DONE: Final = {"truncate": "truncate", "sync": "sync", "high_watermark": "hw", "trim": "trim"}
OLD_COPY: Final = "stale disk"
"""The fault after which a machine runs on an old copy of its directory."""

SKIPPED: Final = "a peer has no pre-votes"
UNPUBLISHED: Final = frozenset({"unpublished"})
"""The voters of a node whose log may have others than it has published."""

LARGEST_EPOCH: Final = 10_000
"""The specification has tables of all epochs."""


class NotTraceableError(Exception):
    """The specification, or this translation, has no words for what the trace shows."""


@attrs.frozen
class Shown:
    """What an event shows of its node.  Ends are exclusive offsets of the trace."""

    epoch: int
    role: str
    leader: str
    end: int
    synced: int
    hw: int
    voters: frozenset[str]
    """Node ids, or UNPUBLISHED."""


@attrs.frozen
class Step:
    """One step of the specification, and the event that it stands for."""

    kind: str
    node: str
    """The replica: its node id, and a letter for its disk."""
    shown: Shown
    event: TraceEvent
    voters: frozenset[str] = frozenset()
    """The replicas of the newest voter set that it appends."""
    candidate: str | None = None
    """Of a vote or pre-vote that was granted: the replica that has asked for it."""
    candidate_epoch: int = 0
    old: str | None = None
    """Of a changed disk: the replica that ran before."""
    to: int | None = None
    """Of a snapshot or a trim: its end."""
    is_damaged: bool = False
    """Of a start: whether the newest snapshot was found damaged."""

    @property
    def is_role(self) -> bool:
        """Whether the event shows a vote and the leader that the node knows."""
        return self.event.kind == "role" and self.kind != "leads"

    @property
    def voted(self) -> str:
        """The node id that the node has voted for, without its votes for itself while it stands by them."""
        return _voted(self.event).partition("-")[0]

    @property
    def known_leader(self) -> str:
        known = self.event.details["known_leader"]
        return NOBODY if known is None else str(known)


@attrs.frozen
class Steps:
    """The steps of a trace, and what its constants are."""

    steps: tuple[Step, ...]
    replicas: tuple[str, ...]
    first: tuple[str, ...]
    """The first replica of each machine."""
    initial_voters: frozenset[str]
    """Replicas, or node ids if the set is static."""
    offsets: tuple[int, ...]
    """Every offset at which some log has ended.  The specification has one record between two of them."""
    cut: TraceEvent | None = None
    """What the specification does not have.  The steps end before it."""

    def index(self, offset: int) -> int:
        """The number of records of the specification that are below an offset."""
        found = bisect_left(self.offsets, offset)
        if self.offsets[found : found + 1] != (offset,):
            raise NotTraceableError(f"no log has ended at offset {offset}")
        return found

    @property
    def max_epoch(self) -> int:
        return max((step.shown.epoch for step in self.steps), default=0) + 1


def id_of(replica: str) -> str:
    """The node id of a replica."""
    return replica[:-1]


@attrs.define
class _Node:
    replica: str | None = None
    """Which one runs; None before the first and between two."""
    last: str | None = None
    """Which one has run before."""
    shown: Shown | None = None
    elected: TraceEvent | None = None
    """Its election, until it appends the first batch of its epoch."""
    next_role: str = "role"
    """The kind of its next step of a role."""
    last_role: TraceEvent | None = None
    """The last event of kind role of its process."""
    installed_end: int | None = None
    """The end of a snapshot that has replaced its log just now."""
    has_new_voters: bool = False
    """Whether its log may have voters that it has not published yet."""
    has_damaged_snapshot: bool = False
    """Whether it has said so since it ran last."""


class _Translation:
    def __init__(self) -> None:
        self._nodes: dict[int, _Node] = {}
        self.steps: list[Step] = []
        self._replicas: dict[str, str] = {}
        """The replicas by their keys."""
        self.cut: TraceEvent | None = None

    @property
    def replicas(self) -> list[str]:
        return sorted(self._replicas.values())

    def take(self, event: TraceEvent) -> None:
        if event.kind == "fault" and event.cause == OLD_COPY:
            self.cut = self.cut or event
        if event.node is None or self.cut is not None:
            return
        node = self._nodes.setdefault(event.node, _Node())
        node.has_damaged_snapshot |= event.kind == "log" and event.cause == "damaged snapshot ignored"
        if event.kind == "start":
            self._end(node)
            node.replica = self._replica(str(event.details["directory_id"]))
        elif event.kind == "end":
            self._end(node)
        elif node.replica is not None and event.role is not None:
            self._happen(node, event)

    def _replica(self, key: str) -> str:
        if key not in self._replicas:
            node = key.partition("-")[0]
            disks = sum(id_of(replica) == node for replica in self._replicas.values())
            self._replicas[key] = f"{node}{chr(ord('a') + disks)}"
        return self._replicas[key]

    def _end(self, node: _Node) -> None:
        if node.elected is not None:
            # It has died before anybody saw the first record of its epoch.
            shown = _shown(node.elected)
            self._add("leads", node, attrs.evolve(shown, end=shown.end + 1), node.elected)
        node.replica, node.shown, node.elected, node.next_role, node.last_role = None, None, None, "role", None

    def _happen(self, node: _Node, event: TraceEvent) -> None:
        if event.kind == "append":
            node.has_new_voters |= bool(event.details["voters"])
        elif event.kind in ("truncate", "replace"):
            node.has_new_voters = True
        elif event.kind in ("role", "voters"):
            node.has_new_voters = False
        shown = _shown(event)
        if node.has_new_voters:
            shown = attrs.evolve(shown, voters=UNPUBLISHED)
        match event.kind:
            case "role" if event.details.get("was") is None:
                self._begin(node, shown, event)
            case "role" if event.role == "Leader" and event.details["was"] != "Leader":
                node.elected = event
            case "role" if _has_voted(event, node.last_role):
                self._add(
                    *("vote", node, shown, event),
                    candidate=self._replica(_voted(event)),
                    candidate_epoch=shown.epoch,
                )
            case "role":
                kind, node.next_role = node.next_role, "role"
                self._add("role" if kind == "skip" and event.role != "Candidate" else kind, node, shown, event)
            case "append":
                kind = "append" if node.elected is None else "leads"
                node.elected = None
                self._add(kind, node, shown, event, voters=self._voters(event))
            case "replace":
                # The high watermark of the snapshot is published next.
                node.installed_end = shown.end
                self._add("install", node, attrs.evolve(shown, hw=shown.end), event)
            case "high_watermark" if node.installed_end == shown.hw:
                node.installed_end = None
                self._add("same", node, shown, event)
            case "trim":
                self._add("trim", node, shown, event, to=whole(event.details["to"]))
            case "log" if event.cause == "role":
                node.next_role = _next_role(event)
            case "log" if event.cause == "vote requested" and event.details["granted"]:
                self._add(
                    "prevote" if event.details["pre_vote"] else "vote",
                    *(node, shown, event),
                    candidate=self._replica(str(event.details["candidate"])),
                    candidate_epoch=whole(event.details["epoch"]),
                )
            case "log" if event.cause == "snapshot taken":
                end = int(str(event.details["snapshot_id"]).partition("@")[0])
                self._add("snapshot", node, shown, event, to=end)
            case kind if kind in _DONE:
                self._add(_DONE[kind], node, shown, event)
            case _ if shown != node.shown and node.elected is None:
                self._add("same", node, shown, event)

        if event.kind == "role":
            node.last_role = event

    def _voters(self, event: TraceEvent) -> frozenset[str]:
        """The newest set that an append brings."""
        sets = event.details["voters"]
        assert isinstance(sets, list)
        return frozenset(map(self._replica, str(sets[-1]).split())) if sets else frozenset()

    def _begin(self, node: _Node, shown: Shown, event: TraceEvent) -> None:
        if node.last is None:
            self._add("begin", node, shown, event)
        elif node.last == node.replica:
            self._add("restart", node, shown, event)
        else:
            self._add("swap", node, shown, event, old=node.last)
        if node.has_damaged_snapshot:
            self.steps[-1] = attrs.evolve(self.steps[-1], is_damaged=True)
        node.last, node.has_damaged_snapshot = node.replica, False

    def _add(
        self,
        kind: str,
        node: _Node,
        shown: Shown,
        event: TraceEvent,
        voters: frozenset[str] = frozenset(),
        candidate: str | None = None,
        candidate_epoch: int = 0,
        old: str | None = None,
        to: int | None = None,
    ) -> None:
        assert node.replica is not None
        node.shown = shown
        self.steps.append(Step(kind, node.replica, shown, event, voters, candidate, candidate_epoch, old, to))


def _next_role(event: TraceEvent) -> str:
    if event.details["role"] == "Candidate" and event.details["reason"] == SKIPPED:
        return "skip"
    return "elsewhere" if event.details["by"] == "LEADER_MOVED" else "role"


def _voted(event: TraceEvent) -> str:
    voted = event.details["voted"]
    return NOBODY if voted is None else str(voted)


def _has_voted(event: TraceEvent, before: TraceEvent | None) -> bool:
    """Whether the node has granted another replica its vote since the role before, in this epoch."""
    if before is None or event.role not in ("Unattached", "Prospective") or _voted(event) == NOBODY:
        return False
    is_own = _voted(event).partition("-")[0] == str(event.node)
    return not is_own and (before.epoch != event.epoch or _voted(before) == NOBODY)


def whole(value: object) -> int:
    """A detail of an event that is a number."""
    assert isinstance(value, int)
    return value


def _shown(event: TraceEvent) -> Shown:
    assert event.epoch is not None
    assert event.role is not None
    assert event.log_end is not None
    assert event.synced_end is not None
    return Shown(
        event.epoch,
        event.role,
        str(event.leader) if event.role in ("Leader", "Follower") else NOBODY,
        event.log_end,
        event.synced_end,
        event.high_watermark or 0,
        frozenset(map(str, event.voters or ())),
    )


def steps_of(events: Iterable[TraceEvent]) -> Steps:
    """The steps of a run that begins with new directories.  Raises NotTraceableError."""
    translation = _Translation()
    for event in events:
        translation.take(event)
    steps = translation.steps
    if not steps:
        raise NotTraceableError("the trace has no events of nodes")
    newest = max(steps, key=lambda step: step.shown.epoch)
    if newest.shown.epoch > LARGEST_EPOCH:
        raise NotTraceableError(
            f"event {newest.event.sequence}: epoch {newest.shown.epoch}; expected {LARGEST_EPOCH} at most"
        )
    offsets = {0}
    for step in steps:
        offsets |= {step.shown.end, step.shown.synced, step.shown.hw}
        offsets |= {step.to} if step.to is not None else set()
        if step.kind == "append" and len(sets := several(step.event.details["voters_offsets"])) > 1:
            offsets |= set(map(whole, sets[1:]))
    ordered = tuple(sorted(offsets))
    replicas = tuple(translation.replicas)
    first = tuple(
        replica for before, replica in pairwise(["", *replicas]) if not before or id_of(before) != id_of(replica)
    )
    bootstrap = next((step.voters for step in steps if step.kind == "leads"), frozenset())
    initial_voters = bootstrap or frozenset(steps[0].shown.voters)
    return Steps(tuple(_split(steps, ordered)), replicas, first, initial_voters, ordered, translation.cut)


def several(value: object) -> list[object]:
    """A detail of an event that is a list."""
    assert isinstance(value, list)
    return value


def _split(steps: Sequence[Step], offsets: Sequence[int]) -> Iterable[Step]:
    """A leader appends one record of the specification a step."""
    ends: dict[str, int] = {}
    for step in steps:
        before, end = ends.get(step.node, 0), step.shown.end
        ends[step.node] = end
        if step.kind != "leads" and not (step.kind == "append" and step.shown.role == "Leader"):
            yield step
            continue
        kind, is_first = step.kind, step.kind == "leads"
        inside = offsets[bisect_left(offsets, before) + 1 : bisect_left(offsets, end)]
        for offset in [*inside, end]:
            has_voters = is_first or not inside or _has_voters(step.event, before, offset)
            voters = step.voters if has_voters else frozenset[str]()
            yield attrs.evolve(step, kind=kind, shown=attrs.evolve(step.shown, end=offset), voters=voters)
            kind, is_first, before = "append", False, offset


def _has_voters(event: TraceEvent, base: int, end: int) -> bool:
    return any(base <= whole(offset) < end for offset in several(event.details["voters_offsets"]))
