"""The traces of real nodes, put into one order, are a behaviour of the specification (scripts/trace-check --quorum)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from scripts.model_checking.tlc import TlcMissingError, jar
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.traced_quorum import (
    DISTURBANCES,
    Disturbance,
    checked,
    disturb,
    kill_leader,
    start_all,
    stop_leader,
    take_snapshots,
    writing,
)

NIGHTLY_RUNS = 20
NIGHTLY_DISTURBANCES = 5


@pytest.fixture
def tlc_jar() -> Path:
    try:
        return jar(fetch=False)
    except TlcMissingError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("disturbance", [stop_leader, kill_leader], ids=lambda disturbance: disturbance.__name__)
def test_a_leader_goes_and_comes_back(make_quorum: MakeQuorum, tlc_jar: Path, disturbance: Disturbance) -> None:
    quorum = make_quorum()
    start_all(quorum)
    quorum.produce(["a", "b"])
    disturb(quorum, disturbance, Random(0))
    quorum.produce(["c"])
    verdict = checked(quorum, tlc_jar)
    assert verdict.refusal is None, verdict.refusal.told()
    assert verdict.followed == verdict.steps > 50


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(NIGHTLY_RUNS))
def test_disturbed_quorums(make_quorum: MakeQuorum, tlc_jar: Path, seed: int) -> None:
    """Three voters and two observers, with a writer, are killed, stopped, reassigned, and take snapshots."""
    random = Random(seed)
    quorum = make_quorum(3, 2, kraft_state_machine="latest-by-key")
    start_all(quorum)
    with writing(quorum):
        for disturbance in (*random.choices(DISTURBANCES, k=NIGHTLY_DISTURBANCES), take_snapshots, kill_leader):
            disturb(quorum, disturbance, random)
    verdict = checked(quorum, tlc_jar)
    assert verdict.refusal is None, verdict.refusal.told()
    assert verdict.followed == verdict.steps > 50
