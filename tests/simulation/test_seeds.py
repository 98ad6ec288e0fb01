"""Seeds of the simulator: virtual seconds of all kinds of faults each, with three voters and with five.

All invariants hold throughout, and the quorum makes progress when the faults are over.  The default run takes
half of 30 fixed seeds, and 10 that change with the commit, each for 8 seconds.  The nightly run takes 200 and 50, each
for a minute.
`kraft simulate --seeds` runs any number.
Scenarios and tests keep each finding.
"""

from __future__ import annotations

import functools
from typing import Final

import pytest

from kraft_trio.simulation.campaign.campaign import run_campaign
from kraft_trio.simulation.campaign.seed_run import run_seed
from kraft_trio.simulation.faults.nemesis import PlanOptions
from tests.support import sizes

VIRTUAL_S = 60 if sizes.IS_ALL else 8
SEEDS = 5
"""How many seeds one test runs."""


def first_seeds() -> list[tuple[int, int, int]]:
    """The number of voters, the first seed and the virtual seconds of each test.

    Three quarters of the seeds run with three voters.
    """
    fixed, rotating = (40, 10) if sizes.IS_ALL else (6, 2)
    rotation = 10_000 + sizes.base() * 1_000
    firsts = [number * SEEDS for number in range(fixed)] + [rotation + number * SEEDS for number in range(rotating)]
    tests = [
        ((voters := 5 if index % 4 == 3 else 3), voters * 1000 + first, VIRTUAL_S) for index, first in enumerate(firsts)
    ]
    return [*sizes.part(tests[:fixed], 2), *tests[fixed:]]


@pytest.mark.parametrize(("voters", "first", "virtual_s"), first_seeds())
def test_invariants_hold_and_the_quorum_recovers(voters: int, first: int, virtual_s: int) -> None:
    run = functools.partial(run_seed, options=PlanOptions(voters=voters, duration_us=virtual_s * 1_000_000))
    summary = run_campaign(range(first, first + SEEDS), run, jobs=1)
    print(*summary.lines(summary.real_s), sep="\n")
    assert not [
        f"kraft simulate --nodes {voters} --seed {outcome.seed}: {outcome.failure}" for outcome in summary.violations
    ]
    assert summary.seeds == SEEDS
    assert summary.virtual_s > SEEDS * virtual_s
    # The mean over many seeds is above one a second; five that are harsh by chance may stay below it.
    assert summary.counts["acknowledged appends"] > SEEDS * virtual_s / 3
    assert summary.counts["elections"] >= SEEDS


LOST_CUT: Final = (420199, 420240)
"""A failed fsync loses the cut of preallocated zeros; the process after it seals the segment, and power fails."""
AGREED_UP_TO_A_SNAPSHOT: Final = (420280, 420474)
"""A follower with unlike records gets a snapshot that ends before them: it had acknowledged none of them."""


@pytest.mark.parametrize("seed", sizes.part([*LOST_CUT, *AGREED_UP_TO_A_SNAPSHOT], 4))
def test_what_a_seed_found_stays_mended(seed: int) -> None:
    assert run_seed(seed, options=PlanOptions()).failure is None


@pytest.mark.parametrize("voters", [3, 5])
def test_a_quorum_with_a_witness_recovers(voters: int) -> None:
    first = 20_000 + sizes.base() * SEEDS
    options = PlanOptions(voters=voters, witness=True, duration_us=VIRTUAL_S * 1_000_000)
    summary = run_campaign(range(first, first + SEEDS), functools.partial(run_seed, options=options), jobs=1)
    assert not [
        f"kraft simulate --witness --nodes {voters} --seed {outcome.seed}: {outcome.failure}"
        for outcome in summary.violations
    ]
    assert summary.counts["acknowledged appends"] > 0
