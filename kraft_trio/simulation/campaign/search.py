"""A search of seeds over all mixes of faults: what it has found so far, and which seeds are next."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from kraft_trio.simulation.campaign.reached import REACHABLE
from kraft_trio.simulation.campaign.state_file import Ended
from kraft_trio.simulation.campaign.strata import StratifiedRuns

_IN_TURN: Final = 0.5
"""The share of the seeds that all mixes get in turn; the others go to those that reach what is rare."""


@attrs.define
class _Stratum:
    seeds: int = 0
    reached: Counter[int] = attrs.field(factory=Counter)
    """By the number of what is reached, how many seeds have reached it."""


class Search:
    """What the seeds of a campaign have found, and the order of the others."""

    def __init__(self, runs: StratifiedRuns, ended: Sequence[Ended] = ()) -> None:
        self.runs = runs
        self.ended: set[int] = set()
        """The seeds that have ended."""
        self.failures: list[Ended] = []
        self.virtual_s = 0.0
        self.real_s = 0.0
        self.reached: Counter[int] = Counter()
        """By number in REACHABLE, how many seeds have reached it."""
        self._strata = [_Stratum() for _ in runs.strata]
        for one in ended:
            self.add(one)

    def add(self, ended: Ended) -> None:
        """Take in a seed that has ended.  One that is known already changes nothing."""
        if ended.seed in self.ended:
            return
        self.ended.add(ended.seed)
        self.virtual_s += ended.virtual_s
        self.real_s += ended.real_s
        self.reached.update(ended.reached)
        stratum = self._strata[self.runs.number_of(ended.seed)]
        stratum.seeds += 1
        stratum.reached.update(ended.reached)
        if ended.failure is not None:
            self.failures.append(ended)

    @property
    def seeds_of_strata(self) -> list[int]:
        """How many seeds of each stratum have ended."""
        return [stratum.seeds for stratum in self._strata]

    def names_reached(self) -> frozenset[str]:
        return frozenset(REACHABLE[number] for number in self.reached)

    def next_seeds(self, seeds: range, count: int) -> list[int]:
        """At most that many seeds that have not ended.  The same seeds have the same successors.

        Half of them go to the strata with the fewest seeds.  The others are drawn, and a stratum is the likelier, the
        rarer the things that its seeds reach.
        """
        waiting = [self._waiting(seeds, number) for number in range(len(self._strata))]
        taken = [stratum.seeds for stratum in self._strata]
        weights = self._weights()
        source = random.Random(f"{len(self.ended)}/strata")
        chosen: list[int] = []
        following = [next(one, None) for one in waiting]
        while len(chosen) < count and (left := [n for n, seed in enumerate(following) if seed is not None]):
            is_in_turn = len(chosen) < count * _IN_TURN or not any(weights[number] for number in left)
            if is_in_turn:
                number = min(left, key=taken.__getitem__)
            else:
                (number,) = source.choices(left, [weights[number] for number in left])
            seed = following[number]
            assert seed is not None
            chosen.append(seed)
            taken[number] += 1
            following[number] = next(waiting[number], None)
        return chosen

    def _waiting(self, seeds: range, number: int) -> Iterator[int]:
        strata = len(self._strata)
        first = seeds.start + (number - seeds.start) % strata
        return (seed for seed in range(first, seeds.stop, strata) if seed not in self.ended)

    def _weights(self) -> list[float]:
        """How rare the things are that a seed of each stratum reaches: each counts by 1 / the seeds that reach it."""
        return [
            sum(count / self.reached[number] for number, count in stratum.reached.items()) / max(1, stratum.seeds)
            for stratum in self._strata
        ]
