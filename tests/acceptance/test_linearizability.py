"""Clients of real nodes under faults get answers that one register, used by one client at a time, could have given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kraft_trio.simulation.facts.history_file import read_history
from scripts.linearizability.__main__ import check
from scripts.linearizability.fault_kinds import FAULTS, OF_PROCESSES, OF_SURROUNDINGS, UNDER_LEASES
from scripts.linearizability.faults import Fault, name_of
from scripts.linearizability.real_run import RealRun, run_real_nodes
from tests.support import sizes

SECONDS = 120.0 if sizes.IS_ALL else 10.0
"""Each fault happens at least once, however long that takes."""
PROCESSES = (*OF_PROCESSES,)
SURROUNDINGS = (*OF_SURROUNDINGS, *UNDER_LEASES)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(PROCESSES, id="processes", marks=pytest.mark.rotating(3)),
        pytest.param(SURROUNDINGS, id="surroundings"),
    ],
)
def test_answers_of_real_nodes_are_linearizable(tmp_path: Path, faults: Sequence[Fault]) -> None:
    run = linearizable_run(tmp_path, faults)
    kinds = {entry.kind for entry in read_history(run.history) if entry.outcome == "ok"}
    assert kinds == {"execute", "barrier-read", "lease-read"}


@pytest.mark.rotating(5)
@pytest.mark.parametrize("faults", [PROCESSES, SURROUNDINGS], ids=["processes", "surroundings"])
def test_answers_of_gateways_are_linearizable(tmp_path: Path, faults: Sequence[Fault]) -> None:
    run = linearizable_run(tmp_path, faults, gateway=True)
    verbs = {entry.command[0] for entry in read_history(run.history) if entry.outcome == "ok"}
    assert verbs == {"put", "delete", "txn", "range"}


@pytest.mark.nightly
@pytest.mark.parametrize("gateway", [False, True], ids=["embedded", "gateway"])
def test_lease_beyond_the_configured_drift_is_found(tmp_path: Path, *, gateway: bool) -> None:
    """The leader's clock almost stops, so its lease outlasts the election of another leader."""
    run = run_real_nodes(tmp_path, 20.0, None, gateway=gateway, excessive_drift=True)
    assert not check((run.history,)), run.summary


def linearizable_run(home: Path, faults: Sequence[Fault], *, gateway: bool = False) -> RealRun:
    """A run with each of these faults; in the nightly tests, with all."""
    names = list(FAULTS) if sizes.IS_ALL else list(map(name_of, faults))
    run = run_real_nodes(home, SECONDS, None, gateway=gateway, faults=names)
    assert check((run.history,)), f"{run.summary}\n{run.history.read_text()}"
    assert all(run.faults[name] > 0 for name in names), run.summary
    return run
