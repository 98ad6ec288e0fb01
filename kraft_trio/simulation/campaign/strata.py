"""A campaign over all mixes of faults: each seed belongs to one, and decides everything else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import combinations
from typing import Final

import attrs

from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.reached import REACHABLE
from kraft_trio.simulation.campaign.seed_run import SeedRuns
from kraft_trio.simulation.faults.nemesis import LEAST_WITH_WITNESS, MEMBERSHIP, PROFILES, PlanOptions, make_plan

_CLIQUES: Final = range(3, 6)
"""The numbers of voters that a clique can be among."""


def strata_of(options: PlanOptions) -> tuple[PlanOptions, ...]:
    """Every selection of the profiles; each that changes no voters also with a witness; and a clique.

    A number of voters may exclude the witness or the clique, and so does a selection of profiles the clique.
    """
    return tuple(_strata(options))


def _strata(options: PlanOptions) -> Iterator[PlanOptions]:
    voters = options.voters
    for count in range(len(options.profiles) + 1):
        for profiles in combinations(options.profiles, count):
            mix = attrs.evolve(options, profiles=profiles)
            yield mix
            if MEMBERSHIP not in profiles and (voters is None or voters >= LEAST_WITH_WITNESS):
                yield attrs.evolve(mix, witness=True)
    if options.profiles == PROFILES and (voters is None or voters in _CLIQUES):
        yield PlanOptions(voters=voters, clique=True)


def name_of(stratum: PlanOptions) -> str:
    """What fails, and whether there is a witness."""
    faults = "clique" if stratum.clique else ",".join(stratum.profiles) or "none"
    return f"{faults} with a witness" if stratum.witness else faults


@attrs.frozen
class StratifiedRuns:
    """Runs any seed with the mix of faults that it belongs to."""

    strata: tuple[PlanOptions, ...]

    def number_of(self, seed: int) -> int:
        """The number of the stratum that the seed belongs to: neighbours are in different strata."""
        return seed % len(self.strata)

    def of(self, seed: int) -> SeedRuns:
        return SeedRuns(self.strata[self.number_of(seed)])

    @property
    def limit_s(self) -> float:
        return max(SeedRuns(stratum).limit_s for stratum in self.strata)

    def run(self, seed: int) -> Outcome:
        return self.of(seed).run(seed)

    def run_traced(self, seed: int, path: str) -> Outcome:
        return self.of(seed).run_traced(seed, path)

    def replay(self, seed: int) -> str:
        return self.of(seed).replay(seed)


def digest_of_plans(strata: tuple[PlanOptions, ...]) -> str:
    """Differs if plans do, or what a run can reach.  It covers the first seed of each stratum."""
    digest = hashlib.blake2b(digest_size=16)
    for seed, stratum in enumerate(strata):
        digest.update(make_plan(seed, stratum).script().text.encode())
    digest.update("\n".join(REACHABLE).encode())
    return digest.hexdigest()
