"""Histories of simulated runs as files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.seed_run import run_seed
from kraft_trio.simulation.facts.committed import CommittedRecords
from kraft_trio.simulation.facts.history import History
from kraft_trio.simulation.facts.history_file import entries_of, read_history
from kraft_trio.simulation.faults.nemesis import PlanOptions
from scripts.linearizability.models import violations


def test_a_run_writes_a_linearizable_history(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    outcome = run_seed(2, PlanOptions(voters=3, duration_us=8_000_000), history_to=str(path))
    assert outcome.failure is None
    entries = read_history(path)
    assert {entry.kind for entry in entries} == {"append", "read", "barrier-read"}
    assert list(violations(entries)) == []
    acknowledged = [entry for entry in entries if entry.kind == "append" and entry.outcome == "ok"]
    assert len(acknowledged) == outcome.counts["acknowledged appends"]
    assert list(violations([entry for entry in entries if entry is not acknowledged[-1]]))


def test_a_state_machines_history_has_commands_and_queries(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    options = PlanOptions(voters=3, duration_us=8_000_000, state_machine="scripts.linearizability.registers:Registers")
    outcome = run_seed(1, options, history_to=str(path))
    assert outcome.failure is None
    entries = read_history(path)
    kinds = Counter(entry.kind for entry in entries if entry.outcome == "ok")
    assert set(kinds) == {"execute", "barrier-read", "lease-read"}
    # After the faults, clients read more behind barriers, and query nothing.
    assert outcome.counts["lease reads"] >= kinds["lease-read"]
    assert outcome.counts["barrier reads"] >= kinds["barrier-read"]
    assert list(violations(entries)) == []
    told = [entry for entry in entries if entry.outcome == "ok"]
    assert len(told) == outcome.counts["acknowledged commands"] + outcome.counts["answered queries"]
    swap = next(entry for entry in told if entry.command[0] == "swap" and entry.result is not None)
    assert list(violations([entry for entry in entries if entry.command[-1] != swap.result]))


def test_a_command_that_is_no_array_is_named() -> None:
    history = History(lambda: 0.0)
    history.invoke("execute", client="a").command = b"deposit"
    with pytest.raises(ConfigError, match=r"history: b.deposit. given, expected a command or query that"):
        list(entries_of(history.operations, CommittedRecords()))


def test_operations_become_lines_in_the_order_of_time() -> None:
    history = History(lambda: 0.0)
    committed = CommittedRecords()
    committed.append([b"1", b"2"], 3)
    append = history.invoke("append", client="a", values=[b"1", b"2"])
    history.invoke("append", client="b", values=[b"3"])
    history.lose(history.invoke("append", client="c", values=[b"4"]), "no answer")
    history.fail(history.invoke("append", client="d", values=[b"5"]), "refused")
    read = history.invoke("barrier-read", client="e", from_offset=4, is_linearizable=True)
    history.invoke("read-committed", client="f", from_offset=0)
    history.succeed(read, offsets=[4], values=[b"2"], end_offset=5)
    under_lease = history.invoke("barrier-read", client="g", from_offset=5, is_linearizable=True)
    history.succeed(under_lease, values=[], end_offset=5, is_by_lease=True)
    history.succeed(append, offsets=[3, 4])
    assert [str(entry) for entry in entries_of(history.operations, committed)] == [
        'a from 1 to 12, append: append ["1", "2"] -> [3, 4]',
        'b from 2 to the end, append: append ["3"], unknown',
        'c from 3 to the end, append: append ["4"], unknown',
        'd from 5 to 6, append: append ["5"], fail',
        'e from 7 to 9, barrier-read: read 4 -> [[4, "2"]]',
        "g from 10 to 11, lease-read: read 5 -> []",
        'the log from 13 to 14, read: read 0 -> [[3, "1"], [4, "2"]]',
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2: Expecting property name"),
        ('{"client": "a"}', "line 2: .*missing 6 required"),
        (
            '{"client":"a","kind":"read","command":["read",0],"outcome":"fine","result":[],"invoked":1,"completed":2}',
            "line 2: outcome: 'fine'",
        ),
        (
            '{"client":"a","kind":"read","command":["read",0],"outcome":"ok","result":[],"invoked":1,"completed":null}',
            "line 2: completed: null, but the outcome is ok",
        ),
    ],
)
def test_a_line_that_is_none_of_a_history_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "history.jsonl"
    good = '{"client":"a","kind":"read","command":["read",0],"outcome":"ok","result":[],"invoked":1,"completed":2}'
    path.write_text(f"{good}\n{line}\n")
    with pytest.raises(ValueError, match=problem):
        read_history(path)


def test_a_command_whose_result_is_not_told_may_have_happened() -> None:
    history = History(lambda: 0.0)
    execute = history.invoke("execute", client="a")
    execute.command = b'["swap", "x", "1"]'
    history.succeed(execute, offsets=[3])
    assert [str(entry) for entry in entries_of(history.operations, CommittedRecords())] == [
        'a from 1 to the end, execute: swap "x", "1", unknown'
    ]
