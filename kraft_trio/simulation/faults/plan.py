"""Plans of runs, and the timeline to which each kind of fault adds its steps."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import attrs

from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.script import Script
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps import runs
from kraft_trio.simulation.script.steps.runs import USUAL_PAUSE_US


@attrs.frozen
class TimedStep:
    """A step with its time.  It is taken later if the step before it has not ended."""

    at_us: int
    """Virtual time since the run began, in microseconds."""
    step: Step


@attrs.frozen(kw_only=True)
class Plan:
    """One run: faults until `duration_us`, while clients write and read, and then a recovery with its demands."""

    header: Header
    clients: int = 2
    clients_every_us: int = USUAL_PAUSE_US
    """The average time between two operations of one client."""
    duration_us: int = 60_000_000
    faults: tuple[TimedStep, ...] = ()
    """In the order of their times."""
    ending: tuple[Step, ...] = (runs.recover(),)
    """The demands after the last fault."""
    is_fair_by_itself: bool = True
    """Whether the faults leave a majority of the voters its disks in any case; if not, the run checks that itself."""

    @property
    def seed(self) -> int:
        return self.header.seed

    def steps(self) -> Iterator[Step]:
        """The whole run, step by step, including waits."""
        if not self.is_fair_by_itself:
            yield runs.fair()
        if self.clients:
            yield runs.clients(self.clients, every_us=self.clients_every_us)
        now_us = 0
        for fault in self.faults:
            if fault.at_us > now_us:
                now_us = fault.at_us
                yield runs.at(now_us)
            yield fault.step
        yield runs.at(self.duration_us)
        yield from self.ending

    def script(self, comment: str = "") -> Script:
        """The run as a scenario script that begins with `comment`."""
        return Script.of(self.header, self.steps(), name=f"seed-{self.seed}", comment=comment)


MILLISECOND_US: Final = 1000
SECOND_US: Final = 1_000_000

MOST_DRIFT_PPM: Final = 200_000
"""How much faster or slower a clock may run."""


@attrs.define
class Timeline:
    """A plan that is being made."""

    random: random.Random
    header: Header
    duration_us: int
    changes_voters: bool = False
    """Whether voters are added and removed; only the run itself then knows which disks can be spared."""
    steps: list[TimedStep] = attrs.field(factory=list)
    spoiled: set[int] = attrs.field(factory=set)
    """Voters that have lost what they promised and acknowledged."""
    _busy_until_us: dict[int, int] = attrs.field(factory=dict)

    @property
    def node_ids(self) -> tuple[int, ...]:
        return self.header.nodes

    def add(self, at_us: int, step: Step) -> None:
        """Plan a step.  A step after the faulty time is dropped, because the recovery ends every fault."""
        if at_us < self.duration_us:
            self.steps.append(TimedStep(at_us, step))

    def span_us(self, shortest_us: int, longest_us: int) -> int:
        """A random length of time between these two, spread evenly over the orders of magnitude."""
        exact = math.exp(self.random.uniform(math.log(shortest_us), math.log(longest_us)))
        return max(1, round(exact / MILLISECOND_US)) * MILLISECOND_US

    def claim(self, at_us: int, span_us: int, among: Sequence[int] | None = None) -> int | None:
        """Reserve a node whose process has no other fault in that time; None if there is no such node."""
        free = self.free(at_us, among)
        if not free:
            return None
        node = self.random.choice(free)
        self.occupy(node, at_us + span_us)
        return node

    def free(self, at_us: int, among: Sequence[int] | None = None) -> list[int]:
        """The nodes whose process has no fault at that time."""
        asked = self.node_ids if among is None else among
        return [node for node in asked if self._busy_until_us.get(node, 0) <= at_us]

    def occupy(self, node: int, until_us: int) -> None:
        self._busy_until_us[node] = until_us

    def spoilable(self) -> list[int]:
        """The nodes whose disk may be spoiled: observers, and voters while a majority keeps its disks."""
        if self.header.kraft_version == 0:
            # Without directory ids, a blank disk under an old id would pass for the old disk.
            return list(self.header.observers)
        if self.changes_voters:
            return list(self.node_ids)
        is_left = len(self.spoiled) < (len(self.header.voters) - 1) // 2
        return [*self.header.observers, *(self.header.voters if is_left else sorted(self.spoiled))]

    def spoil(self, node: int) -> None:
        if node in self.header.voters and not self.changes_voters:
            self.spoiled.add(node)

    def split(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All nodes in two groups, neither of them empty."""
        nodes = self.random.sample(self.node_ids, len(self.node_ids))
        size = self.random.randrange(1, len(nodes))
        return tuple(sorted(nodes[:size])), tuple(sorted(nodes[size:]))

    def link(self) -> tuple[int, int]:
        """A random direction between two nodes."""
        source, target = self.random.sample(self.node_ids, 2)
        return source, target

    def link_or_all(self) -> tuple[int, int] | None:
        """A random link, or None for all links."""
        return self.link() if len(self.node_ids) > 1 and self.random.random() < 0.5 else None


Make = Callable[[Timeline, int], None]
"""Adds one fault that begins at that time, in microseconds, if the timeline has room for it."""


@attrs.frozen
class FaultKind:
    """One kind of fault."""

    name: str
    profile: str
    """The group: `network`, `disk`, `process`, `time`, `versions`, `snapshots` or `membership`."""
    make: Make
    min_nodes: int = 1


_kinds: dict[str, FaultKind] = {}
REGISTERED_KINDS: Final[Mapping[str, FaultKind]] = MappingProxyType(_kinds)
"""The kinds of the modules that have been imported; `nemesis.FAULT_KINDS` has all kinds."""


def fault(profile: str, *, min_nodes: int = 1) -> Callable[[Make], Make]:
    """Decorator: register the function as a kind of fault under its own name."""

    def register(make: Make) -> Make:
        name = make.__name__
        _kinds[name] = FaultKind(name, profile, make, min_nodes)
        return make

    return register
