"""Both checkers of histories, on histories known good and bad, and on random ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kraft_trio.simulation.facts.history_file import Entry, read_history
from scripts.linearizability.__main__ import main
from scripts.linearizability.go_program import problems_of
from scripts.linearizability.models import violations
from tests.linearizability.both_checkers import count_wrong
from tests.support.programs import REPOSITORY

HISTORIES = REPOSITORY / "tests" / "data" / "histories"
GOOD = sorted(HISTORIES.glob("linearizable/*.jsonl"))
BAD = sorted(HISTORIES.glob("not-linearizable/*.jsonl"))


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_linearizable_history_has_no_violation(path: Path) -> None:
    assert list(violations(read_history(path))) == []


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_wrong_answer_is_a_violation(path: Path) -> None:
    assert list(violations(read_history(path)))


def test_porcupine_tells_good_from_bad(porcupine: Path) -> None:
    assert sorted(problems_of(porcupine, [*GOOD, *BAD])) == BAD


def test_both_checkers_agree_on_random_histories(porcupine: Path, tmp_path: Path) -> None:
    source = random.Random(18)
    wrong = count_wrong(porcupine, tmp_path, (random_history(source) for _ in range(400)))
    assert 50 < wrong < 350


def random_history(source: random.Random) -> list[Entry]:
    """Overlapping operations on one register and one log, some of them answered wrongly, others not at all."""
    state: dict[str, Any] = {"x": None}
    log: list[tuple[int, str]] = []
    mistakes = source.choice((0.0, 0.5))
    pending: list[tuple[str, list[Any], int]] = []
    entries: list[Entry] = []
    event = 0
    for number in range(source.randint(2, 12)):
        value, event = f"{number}", event + 1
        commands = (
            ["swap", "x", value],
            ["cas", "x", state["x"], value],
            ["get", "x"],
            ["append", [value]],
            ["read", 0],
        )
        pending.append((f"c{number}", source.choice(commands), event))
        while pending and source.random() < 0.6:
            event += 1
            client, command, invoked = pending.pop(source.randrange(len(pending)))
            outcome = source.choice(("ok", "ok", "ok", "unknown", "fail"))
            result = (
                take_effect(command, state, log, source) if outcome != "fail" or source.random() < mistakes else None
            )
            if outcome == "unknown" and source.random() < mistakes:
                take_effect(command, state, log, source)
            if source.random() < mistakes:
                result = source.choice((None, "0", False)) if command[0] in ("swap", "cas", "get") else []
            is_ok = outcome == "ok" and not (command[0] == "append" and not result)
            outcome = outcome if is_ok or outcome != "ok" else "unknown"
            completed = None if outcome == "unknown" else event
            entries.append(Entry(client, "any", command, outcome, result if is_ok else None, invoked, completed))
    entries += [Entry(client, "any", command, "unknown", None, invoked, None) for client, command, invoked in pending]
    return entries


def take_effect(command: list[Any], state: dict[str, Any], log: list[tuple[int, str]], source: random.Random) -> Any:
    before = state["x"]
    match command[0]:
        case "swap":
            state["x"] = command[2]
            return before
        case "cas":
            state["x"] = command[3] if before == command[2] else before
            return before == command[2]
        case "append":
            log.append((log[-1][0] + source.randint(1, 2) if log else 1, command[1][0]))
            return [log[-1][0]]
        case "read":
            return [list(pair) for pair in log]
    return before


def test_the_command_names_the_wrong_answers() -> None:
    good, bad = GOOD[0], HISTORIES / "not-linearizable" / "stale-read.jsonl"
    checked = CliRunner().invoke(main, [str(good), str(bad)])
    assert checked.exit_code == 1
    assert (
        f"{bad}: register x: 2 of 3 operations have an order; after them, none of these fits:\n  b from 5 to 6, "
        in (checked.output)
    )
    assert checked.output.splitlines()[-2:] == [
        "acknowledged: barrier-read 1, execute 3, lease-read 1",
        "1 of 2 histories are linearizable",
    ]
