"""Clients of real nodes under faults get answers that one register, used by one client at a time, could have given."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft_trio.simulation.facts.history_file import read_history
from scripts.linearizability.__main__ import check
from scripts.linearizability.faults import FAULTS
from scripts.linearizability.real_run import RealRun, run_real_nodes
from tests.support import sizes

SECONDS = 120.0 if sizes.IS_ALL else 10.0
"""Each fault happens at least once, however long that takes."""


def test_answers_of_real_nodes_are_linearizable(tmp_path: Path) -> None:
    run = linearizable_run(tmp_path)
    kinds = {entry.kind for entry in read_history(run.history) if entry.outcome == "ok"}
    assert kinds == {"execute", "barrier-read", "lease-read"}


@pytest.mark.rotating(4)
def test_answers_of_gateways_are_linearizable(tmp_path: Path) -> None:
    run = linearizable_run(tmp_path, gateway=True)
    verbs = {entry.command[0] for entry in read_history(run.history) if entry.outcome == "ok"}
    assert verbs == {"put", "delete", "txn", "range"}


def linearizable_run(home: Path, *, gateway: bool = False) -> RealRun:
    """A run with every fault."""
    run = run_real_nodes(home, SECONDS, None, gateway=gateway)
    assert check((run.history,)), f"{run.summary}\n{run.history.read_text()}"
    assert {fault.__name__.replace("_", "-") for fault in FAULTS} <= set(run.faults)
    return run
