"""Links that break in every possible way around nodes that keep reaching each other."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator
from itertools import combinations
from typing import Final

from kraft_trio.simulation.script.parts import Link
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps.network import answers_only, one_way, requests_only

CLIQUE_TIMEOUTS: Final = 30
"""Something must commit within this many of the longest timeouts while a majority of the voters reach each other."""


def broken_links(source: random.Random, clique: Collection[int], others: Collection[int]) -> Iterator[Step]:
    """Break each direction of each link that is not inside the clique, in one of the possible ways or not at all.

    Each call prefers some of these ways, because a way shows its effect only if most links break like that.
    """
    kinds: list[Callable[[Link], Step] | None] = [
        one_way,
        lambda link: one_way(link, hard=True),
        requests_only,
        answers_only,
        None,
    ]
    weights = [math.exp(source.uniform(-2.0, 2.0)) for _ in kinds]
    for pair in combinations(sorted({*clique, *others}), 2):
        if pair[0] in clique and pair[1] in clique:
            continue
        for link in (pair, (pair[1], pair[0])):
            (kind,) = source.choices(kinds, weights)
            if kind is not None:
                yield kind(link)
