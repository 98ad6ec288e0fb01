"""While a majority of the voters reach each other, something commits, whatever is broken for good around them.

`kraft simulate --clique --seeds A:B` runs as many more as one likes.
"""

from __future__ import annotations

import functools
import random
from itertools import permutations

import pytest

from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.campaign import run_campaign
from kraft_trio.simulation.campaign.seed_run import SeedRuns, run_seed
from kraft_trio.simulation.faults.nemesis import PlanOptions, make_plan
from kraft_trio.simulation.script.recovery.links import broken_links
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script
from tests.support import sizes

CLIQUES = PlanOptions(clique=True)

ONCE_STUCK = (45, 74, 84, 137, 232)
"""Seeds that never committed again, before only answers kept a follower and only progress kept a leader."""


def test_cliques_go_on_committing() -> None:
    seeds = [*sizes.part(range(15), 5), *sizes.part(ONCE_STUCK, 2)]
    summary = run_campaign(seeds, functools.partial(run_seed, options=CLIQUES), jobs=1)
    assert not [f"{SeedRuns(CLIQUES).replay(o.seed)}: {o.failure}" for o in summary.violations]
    assert summary.seeds == len(seeds)


def test_no_link_within_the_clique_is_broken() -> None:
    for seed in range(50):
        for step in broken_links(random.Random(seed), {1, 3, 5}, {2, 4}):
            assert {*step.node_ids} & {2, 4}


def test_each_other_link_breaks_in_every_way() -> None:
    seen = {step.text for seed in range(300) for step in broken_links(random.Random(seed), {1, 2}, {3})}
    links = [f"{a} -> {b}" for a, b in permutations((1, 2, 3), 2) if 3 in (a, b)]
    for link in links:
        ways = {text.replace(link, "").strip() for text in seen if link in text}
        assert ways == {"one-way", "one-way  hard", "requests-only", "answers-only"}


def test_plans_are_of_three_to_five_voters_and_print_as_scripts() -> None:
    plans = [make_plan(seed, CLIQUES) for seed in range(100)]
    assert {len(plan.header.voters) for plan in plans} == {3, 4, 5}
    for plan in plans:
        script = parse_script(plan.script().text)
        assert script.steps == tuple(plan.steps())
        assert not {"heal", "recover"} & {step.verb for step in script.steps}
        assert script.steps[-1].verb == "demand-commit"


def test_an_unmet_demand_is_a_violation() -> None:
    script = "voters 1 2\nclients 1\nisolate 1\ndemand-commit within 20s\n"
    failure = run_script(parse_script(script)).failure
    assert failure is not None
    assert "something commits" in str(failure)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"voters": 2}, "nodes"), ({"voters": 7}, "nodes"), ({"observers": 1}, "observers"), ({"profiles": ()}, "faults")],
)
def test_options_that_a_clique_excludes(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        PlanOptions(clique=True, **options)  # type: ignore[arg-type]
