"""The alarm that ends a run without end: in one of its tasks if there is a way, in Trio's scheduler if not."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import trio

from kraft_trio.simulation.campaign.watchdog import Stuck, real_time_limit


def test_a_step_of_trio_is_not_interrupted() -> None:
    steps: list[str] = []

    @trio.lowlevel.enable_ki_protection
    def step_of_trio() -> None:
        signal.raise_signal(signal.SIGPROF)
        steps.append("done")

    async def main() -> None:
        step_of_trio()
        while True:
            pass

    with pytest.raises(Stuck), real_time_limit(60):
        trio.run(main)
    assert steps == ["done"]


def test_outside_trio_it_ends_anything() -> None:
    with pytest.raises(Stuck, match="still running after 60 s"), real_time_limit(60):
        signal.raise_signal(signal.SIGALRM)


WAITS = """
import trio
from kraft_trio.simulation.campaign import watchdog
watchdog._POSTPONEMENTS = 2
try:
    with watchdog.real_time_limit(0.01):
        trio.run(trio.sleep_forever)
except watchdog.Stuck as stuck:
    print(stuck)
"""


def test_a_run_whose_tasks_all_wait_is_ended() -> None:
    """In a process of its own, which does not see what becomes of the tasks."""
    done = subprocess.run([sys.executable, "-c", WAITS], capture_output=True, text=True, check=True)
    assert done.stdout == "still running after 0.01 s\n"
