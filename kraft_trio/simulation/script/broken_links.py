"""Links that are broken for good, each direction in a way of its own."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator
from itertools import combinations
from typing import Final

from kraft_trio.simulation.script.steps import Step
from kraft_trio.simulation.script.steps_network import AnswersOnly, OneWay, RequestsOnly

CLIQUE_TIMEOUTS: Final = 30
"""Within how many of the longest timeouts something commits, while a majority of the voters reach each other."""


def broken_links(source: random.Random, clique: Collection[int], others: Collection[int]) -> Iterator[Step]:
    """Break each direction of each link that is not inside the clique in one of the ways there are, or in none.

    Each call has a character of its own: where most links are broken in the same way, that way shows what it does.
    """
    kinds: list[Callable[[tuple[int, int]], Step] | None] = [OneWay, _hard_one_way, RequestsOnly, AnswersOnly, None]
    weights = [math.exp(source.uniform(-2.0, 2.0)) for _ in kinds]
    for pair in combinations(sorted({*clique, *others}), 2):
        if pair[0] in clique and pair[1] in clique:
            continue
        for link in (pair, (pair[1], pair[0])):
            (kind,) = source.choices(kinds, weights)
            if kind is not None:
                yield kind(link)


def _hard_one_way(link: tuple[int, int]) -> Step:
    return OneWay(link, hard=True)
