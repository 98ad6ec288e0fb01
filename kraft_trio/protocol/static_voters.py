"""Whether the static voters of a configuration may follow those of before (scenario S23).

No log has static voters, so nothing keeps a majority of a new set from forgetting what a majority of the old one has
committed.  A new set is safe only if the two always have a voter in common.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from kraft_trio.protocol.voter_set import majority_of


@attrs.frozen
class DisjointMajorities:
    """Two majorities without a common voter: `after` can elect a leader that lacks what `before` has committed."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def disjoint_majorities(before: Collection[int], after: Collection[int]) -> DisjointMajorities | None:
    """Return smallest majorities of two sets of ids that have no voter in common; None if all of them have one.

    An empty set has no majority.
    """
    if not before or not after:
        return None
    left, joined, kept = set(before) - set(after), set(after) - set(before), sorted(set(before) & set(after))
    old = (sorted(left) + kept)[: majority_of(len(before))]
    # Of the voters that stay, the old majority has the first ones, so the new one takes the last ones.
    new = (sorted(joined) + kept[::-1])[: majority_of(len(after))]
    if set(old) & set(new):
        return None
    return DisjointMajorities(tuple(sorted(old)), tuple(sorted(new)))
