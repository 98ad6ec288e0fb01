"""Some seeds of the simulator, each with all kinds of fault: what holds always, and progress once the faults are over.

`kraft simulate --seeds` runs as many more as one likes.
"""

from __future__ import annotations

import pytest

from kraft_trio.simulation.nemesis import PlanOptions
from kraft_trio.simulation.seed_run import run_seed

DURATION_US = 20_000_000


@pytest.mark.parametrize("seed", range(1000, 1015))
def test_safety_throughout_and_progress_afterwards(seed: int) -> None:
    outcome = run_seed(seed, PlanOptions(duration_us=DURATION_US))
    assert outcome.failure is None, f"kraft simulate --seed {seed} --time 20s: {outcome.failure}"
    assert outcome.counts["acknowledged appends"] > 0
