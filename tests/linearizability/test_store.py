"""The key-value store: what its clients are told, and that random runs of it are linearizable."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kraft_trio import Committed
from kraft_trio.simulation.campaign.seed_run import run_seed
from kraft_trio.simulation.facts.history_file import Entry, read_history
from kraft_trio.simulation.faults.nemesis import PlanOptions
from scripts.linearizability.models import violations
from scripts.linearizability.store import SimulatedStore
from tests.linearizability.both_checkers import count_wrong

CONVERSATION: list[tuple[list[Any], list[Any]]] = [
    (["range", "a", "z"], [1, []]),
    (["put", "a", "1"], [2, None]),
    (["put", "a", "2"], [3, "1"]),
    (["txn", "a", "1", "3"], [3, False]),
    (["txn", "a", "2", "3"], [4, True]),
    (["txn", "b", None, "4"], [5, True]),
    (["txn", "b", None, "5"], [5, False]),
    (["delete", "a"], [6, "3"]),
    (["delete", "a"], [6, None]),
    (["range", "a", None], [6, []]),
    (["range", "a", "z"], [6, [["b", "4"]]]),
]


def test_clients_are_told_what_the_format_says() -> None:
    store = SimulatedStore()
    for offset, (command, result) in enumerate(CONVERSATION):
        told = store.answer(command) if command[0] == "range" else store.apply(committed(command, offset))
        assert told == result, command


def committed(command: list[Any], offset: int) -> Committed[bytes]:
    return Committed(offset, 0, json.dumps(command).encode())


@pytest.mark.rotating(2)
def test_a_simulated_run_is_linearizable(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    machine = "scripts.linearizability.store:SimulatedStore"
    outcome = run_seed(1, PlanOptions(voters=3, duration_us=8_000_000, state_machine=machine), history_to=str(path))
    assert outcome.failure is None
    entries = read_history(path)
    assert list(violations(entries)) == []
    put = next(entry for entry in entries if entry.command[0] == "put" and entry.outcome == "ok")
    assert list(violations([entry for entry in entries if entry is not put]))


def test_both_checkers_agree_on_random_histories(porcupine: Path, tmp_path: Path) -> None:
    source = random.Random(18)
    wrong = count_wrong(porcupine, tmp_path, (random_history(source) for _ in range(300)))
    assert 50 < wrong < 250


def random_history(source: random.Random) -> list[Entry]:
    """Overlapping operations, in half of the histories with some wrong answers."""
    store = SimulatedStore()
    mistakes = source.choice((0.0, 0.2))
    pending: list[tuple[str, list[Any], int]] = []
    entries: list[Entry] = []
    event = 0
    for number in range(source.randint(2, 10)):
        event += 1
        is_read = source.random() < 0.3
        command = store.random_query(source) if is_read else json.loads(store.random_command(source))
        pending.append((f"c{number}", command, event))
        while pending and source.random() < 0.6:
            event += 1
            client, command, invoked = pending.pop(source.randrange(len(pending)))
            outcome = source.choice(("ok", "ok", "ok", "unknown", "fail"))
            has_happened = outcome == "ok" or source.random() < (0.5 if outcome == "unknown" else mistakes)
            result: Any = None
            if command[0] == "range":
                result = store.answer(command)
            elif has_happened:
                result = store.apply(committed(command, event))
            if outcome == "ok" and source.random() < mistakes:
                result = [source.randint(1, 4), source.choice((None, "1", True)) if command[0] != "range" else []]
            completed = None if outcome == "unknown" else event
            told = result if outcome == "ok" else None
            entries.append(Entry(client, "any", command, outcome, told, invoked, completed))
    return entries


@pytest.mark.parametrize(
    "lost",
    [["put", "a", "{}"], ["txn", "b", None, "{}"], ["delete", "c"]],
    ids=["writes-that-nobody-saw", "transactions-that-nobody-saw", "writes-without-a-change"],
)
def test_many_writes_of_unknown_outcome_leave_few_orders(lost: list[Any]) -> None:
    """Each of forty writes may have happened or not.  Trying all those cases would take years."""
    count = 40
    unknown = [
        Entry(f"c{number}", "any", [part and part.format(number) for part in lost], "unknown", None, number, None)
        for number in range(count)
    ]
    told = {"put": 20, "txn": 2, "delete": 1}[lost[0]]
    reads = [
        Entry("r", "any", ["range", "z", None], "ok", [revision, []], count + 2 * place, count + 2 * place + 1)
        for place, revision in enumerate((told, told))
    ]
    assert list(violations([*unknown, *reads])) == []
    stale = Entry("r", "any", ["range", "z", None], "ok", [told - 1, []], 998, 999)
    [problem] = violations([*unknown, *reads, stale])
    assert "none of these fits" in problem
