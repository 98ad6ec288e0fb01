"""docs/explanation/correctness.md: each claim names what checks it, and a command that checks it again."""

from __future__ import annotations

import re

import click
import pytest

from kraft_trio.cli import kraft
from kraft_trio.simulation.invariants import INVARIANTS
from scripts.model_checking.models import models
from tests.spec.test_specification import invariants_of
from tests.test_documentation import REPOSITORY

PAGE = REPOSITORY / "docs" / "explanation" / "correctness.md"
CLAIMS = re.findall(r"^\| (.+?\.) \| (.+?) \| `([^`]+)` \|$", PAGE.read_text(), re.MULTILINE)
COMMANDS = re.findall(r"`((?:scripts/|kraft )[^`]+)`", PAGE.read_text())


def test_no_invariant_is_missing() -> None:
    named = {name for _claim, names, _command in CLAIMS for name in names.split(", ")}
    assert named - {"demands on every run"} == {invariant.__name__ for invariant in INVARIANTS}


def test_the_model_of_a_claim_checks_it() -> None:
    searched = [(names, words) for _claim, names, command in CLAIMS if (words := command.split())[0] == "scripts/tlc"]
    assert len(searched) > 10
    for names, (_script, model) in searched:
        checked = {invariant for each in models()[model].properties for invariant in invariants_of(each)}
        assert set(names.split(", ")) <= checked, model


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_names_exists(command: str) -> None:
    program, *words = command.removeprefix("kraft ").split()
    paths = [word for word in words if "/" in word] + [program] * command.startswith("scripts/")
    assert all((REPOSITORY / path).exists() for path in paths)
    if command.startswith("kraft "):
        called = kraft.get_command(click.Context(kraft), program)
        assert called is not None
        assert {word for word in words if word.startswith("--")} <= {one for each in called.params for one in each.opts}
