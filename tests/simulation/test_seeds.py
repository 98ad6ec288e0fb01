"""Two hundred seeds of the simulator, a virtual minute of all kinds of fault each, with three voters and with five.

What holds, holds throughout; and once the faults are over there is progress.  `kraft simulate --seeds` runs as many
more as one likes.  What seeds have found is kept as scenarios and tests of its own, which do not change with the plans:
docs/SIMULATION.md lists them.
"""

from __future__ import annotations

import functools
import os

import pytest

from kraft_trio.simulation.campaign.campaign import run_campaign
from kraft_trio.simulation.campaign.seed_run import run_seed
from kraft_trio.simulation.faults.nemesis import PlanOptions

MINUTE_US = 60_000_000


@pytest.mark.parametrize(("voters", "seeds"), [(3, 150), (5, 50)], ids=["3", "5"])
def test_seeds_of_a_minute(voters: int, seeds: int) -> None:
    run = functools.partial(run_seed, options=PlanOptions(voters=voters, duration_us=MINUTE_US))
    summary = run_campaign(range(voters * 1000, voters * 1000 + seeds), run, jobs=os.cpu_count() or 1)
    print(*summary.lines(summary.real_s), sep="\n")
    assert not [
        f"kraft simulate --nodes {voters} --seed {outcome.seed}: {outcome.failure}" for outcome in summary.violations
    ]
    assert summary.seeds == seeds
    assert summary.virtual_s > seeds * 60
    assert summary.counts["acknowledged appends"] > seeds * 60
    assert summary.counts["elections"] > seeds
