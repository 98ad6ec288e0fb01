"""Stories for the invariants: a lawful beginning, then one step that no rule allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from tests.simulation.fabricated_cluster import FabricatedCluster

Teller = Callable[[FabricatedCluster], Iterator[None]]
"""Yields once, between what is lawful and what is not."""


@attrs.frozen
class Story:
    """One way to break one invariant."""

    number: int
    teller: Teller
    kraft_version: int

    @property
    def name(self) -> str:
        return f"{self.number}-{self.teller.__name__}"

    def tell(self) -> FabricatedCluster:
        """The cluster at its end.  AssertionError unless the beginning is lawful and the end breaks the invariant."""
        cluster = FabricatedCluster(kraft_version=self.kraft_version)
        told = self.teller(cluster)
        next(told)
        assert not cluster.violations, f"before anything was wrong: {cluster.violations[0]}"
        for _ in told:
            raise AssertionError(f"{self.name} yields more than once")
        found = [violation for violation in cluster.violations if violation.invariant == self.number]
        others = "; ".join(map(str, cluster.violations)) or "nothing"
        assert found, f"invariant {self.number} has found nothing; found was: {others}"
        return cluster


class Stories:
    """A table of stories, in the order in which they are written down."""

    def __init__(self) -> None:
        self.all: list[Story] = []

    def of(self, number: int, *, kraft_version: int = 1) -> Callable[[Teller], Teller]:
        """The decorated story breaks the invariant of that number."""

        def add(teller: Teller) -> Teller:
            self.all.append(Story(number, teller, kraft_version))
            return teller

        return add
