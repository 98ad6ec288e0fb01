"""When a new disk may take the place of the old one: the new incarnation is fit, and the old one is gone."""

from __future__ import annotations

from uuid import UUID

import pytest

from kraft_trio.protocol.replacement import UNKNOWN, DescribedReplica, objection_to_replacing
from kraft_trio.protocol.types import ReplicaKey

OLD, NEW, OTHER = ReplicaKey(3, UUID(int=1)), ReplicaKey(3, UUID(int=2)), ReplicaKey(1, UUID(int=3))
NOW, LATELY = 100_000, 2_000


@pytest.mark.parametrize(
    ("old_fetched", "new_caught_up", "objection"),
    [
        (NOW - LATELY - 1, NOW, None),
        (UNKNOWN, NOW - LATELY, None),
        (NOW - LATELY - 1, NOW - LATELY - 1, "has not caught up"),
        (NOW - LATELY - 1, UNKNOWN, "has not caught up"),
        (NOW - LATELY, NOW, "two processes have the id 3"),
        (NOW, NOW, "two processes have the id 3"),
        (UNKNOWN, None, "has not heard of 3"),
    ],
)
def test_old_incarnation_goes_once_the_new_one_is_fit(
    old_fetched: int, new_caught_up: int | None, objection: str | None
) -> None:
    voters = [DescribedReplica(OTHER, NOW, NOW), DescribedReplica(OLD, old_fetched, UNKNOWN)]
    observers = [] if new_caught_up is None else [DescribedReplica(NEW, NOW, new_caught_up)]
    found = objection_to_replacing(NEW, voters, observers, NOW, LATELY)
    assert (found is None) if objection is None else (found is not None and objection in found)


def test_no_clock_of_the_leader_is_no_word_of_anybody() -> None:
    observers = [DescribedReplica(NEW, UNKNOWN, UNKNOWN)]
    assert objection_to_replacing(NEW, [], observers, UNKNOWN, LATELY) is not None
