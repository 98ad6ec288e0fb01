"""Clients of real nodes under faults get answers that one register, used by one client at a time, could have given."""

from __future__ import annotations

from pathlib import Path

from kraft_trio.simulation.facts.history_file import read_history
from scripts.linearizability.__main__ import check
from scripts.linearizability.faults import FAULTS
from scripts.linearizability.real_run import run_real_nodes
from tests.support import sizes

SECONDS = 120.0 if sizes.IS_ALL else 10.0
"""Each fault happens at least once, however long that takes."""


def test_answers_of_real_nodes_are_linearizable(tmp_path: Path) -> None:
    run = run_real_nodes(tmp_path, SECONDS, None)
    assert check((run.history,)), f"{run.summary}\n{run.history.read_text()}"
    assert {fault.__name__.replace("_", "-") for fault in FAULTS} <= set(run.faults)
    kinds = {entry.kind for entry in read_history(run.history) if entry.outcome == "ok"}
    assert kinds == {"execute", "barrier-read", "lease-read"}
