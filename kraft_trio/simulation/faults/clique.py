"""Cliques: a majority of the voters reach each other, and every other link is broken in some way, for good.

Whatever the broken links are, something must go on being committed.  A leader outside of the clique, or one that a part
of it reaches, must not keep the rest of it from electing another.
"""

from __future__ import annotations

import random
from typing import Final

from kraft_trio.simulation.faults.plan import Plan, TimedStep
from kraft_trio.simulation.faults.timeline import MILLISECOND_US, SECOND_US
from kraft_trio.simulation.script.broken_links import CLIQUE_TIMEOUTS, broken_links
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.steps import Step
from kraft_trio.simulation.script.steps_campaign import DemandCommit
from kraft_trio.simulation.script.steps_time import Wait

VOTERS: Final = (3, 3, 4, 5, 5, 5)
"""How many voters the clusters have."""

BREAKS_WITHIN_US: Final = 4 * SECOND_US
"""When the last link breaks, at the latest: some runs begin broken, in others a leader has been elected before."""

_ROUNDS: Final = 2
"""How often that is demanded: right after the last link broke, and once the quorum has had time to get stuck."""


def clique_plan(seed: int, voters: int | None, settings: dict[str, str], longest_timeout_us: int) -> Plan:
    """A run whose clients write all the time, of that many voters, or as many as the seed says."""
    source = random.Random(f"{seed}/clique")
    count = source.choice(VOTERS) if voters is None else voters
    nodes = tuple(range(1, count + 1))
    clique = source.sample(nodes, source.choice((count // 2 + 1, max(count // 2 + 1, count - 1))))
    others = [node for node in nodes if node not in clique]
    begins_us = source.choice((0, source.randrange(BREAKS_WITHIN_US)))
    spread_us = source.choice((1, BREAKS_WITHIN_US - begins_us))
    steps = [
        TimedStep((begins_us + source.randrange(spread_us)) // MILLISECOND_US * MILLISECOND_US, step)
        for step in broken_links(source, clique, others)
    ]
    demand: tuple[Step, ...] = (DemandCommit(CLIQUE_TIMEOUTS * longest_timeout_us),)
    return Plan(
        header=Header(
            seed=seed,
            voters=nodes,
            kraft_version=source.choice((0, 1, 1, 1)),
            settings=tuple(sorted(settings.items())),
        ),
        clients=2,
        duration_us=BREAKS_WITHIN_US,
        faults=tuple(sorted(steps, key=lambda fault: fault.at_us)),
        ending=demand + (Wait(4 * longest_timeout_us), *demand) * (_ROUNDS - 1),
    )
