"""How many more failures a voter set survives now."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from kraft_trio.protocol.voter_set import majority_of


@attrs.frozen
class Survival:
    """A voter set, and those of its voters that are up."""

    voter_ids: tuple[int, ...]
    up_ids: tuple[int, ...]

    @property
    def majority(self) -> int:
        """The number of voters that must be up."""
        return majority_of(len(self.voter_ids))

    @property
    def spare(self) -> int:
        """The number of voters that may fail now; negative if too many have failed already."""
        return len(self.up_ids) - self.majority


def survival_of(voter_ids: Collection[int], up: Iterable[int]) -> Survival:
    """`up` may have ids of nodes that are not in the set."""
    return Survival(tuple(sorted(voter_ids)), tuple(sorted(set(voter_ids) & set(up))))
