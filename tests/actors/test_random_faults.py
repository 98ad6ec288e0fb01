"""Random faults under virtual time: the invariants hold throughout, and the quorum goes on afterwards."""

from __future__ import annotations

import trio
import trio.testing
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.support.fault_scenario import (
    LOSABLE,
    Crash,
    CrashAll,
    CutOff,
    FailSync,
    FaultScenario,
    Heal,
    Kill,
    LoseAnswers,
    Restart,
    SlowDisk,
    Step,
    Stop,
    Wait,
)

NODE = st.integers(0, 4)

STEP: st.SearchStrategy[Step] = st.one_of(
    st.builds(Wait, st.integers(1, 5000)),
    st.builds(Wait, st.integers(1, 200)),
    st.builds(Crash, NODE, st.booleans()),
    st.builds(Kill, NODE),
    st.builds(CrashAll, st.booleans()),
    st.builds(Restart, NODE),
    st.builds(Restart, NODE),
    st.builds(Stop, NODE),
    st.builds(CutOff, st.integers(1, 15), st.booleans()),
    st.just(Heal()),
    st.builds(SlowDisk, NODE, st.sampled_from([0, 50, 500])),
    st.builds(FailSync, NODE),
    st.builds(LoseAnswers, st.integers(0, len(LOSABLE) - 1), st.integers(1, 3)),
)


@settings(max_examples=15, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32 - 1),
    voters=st.sampled_from([1, 2, 3, 5]),
    observes=st.booleans(),
    steps=st.lists(STEP, min_size=3, max_size=25),
)
def test_safety_throughout_and_progress_afterwards(seed: int, voters: int, observes: bool, steps: list[Step]) -> None:
    scenario = FaultScenario(seed, steps, voters=voters, observes=observes)
    note(f"seed {seed}")
    trio.run(scenario.run, clock=trio.testing.MockClock(autojump_threshold=0))
