"""docs/rules.toml: every rule says what became of it, and nothing that checks the protocol is missing from it.

What it names exists: functions, tests, steps of the specification, mutants and invariants.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from docs.rules import Part, State, content
from kraft_trio.cli import kraft
from kraft_trio.config import KEYS
from kraft_trio.metrics.definitions import METRICS
from kraft_trio.simulation.invariants import INVARIANTS
from tests.simulation.mutants import MUTANTS
from tests.spec.test_specification import functions, steps
from tests.test_documentation import REPOSITORY, names_of_tests, resolve

CONTENT = content()
PARTS = {part.title: part for part in CONTENT.part}
RULES = [rule for part in CONTENT.part for rule in part.rules]
NAMES = {key.name for key, _default in KEYS} | {metric.name for metric in METRICS}
PROVED = 275
"""How many rules name both what decides them and a test that fails without it; there may be more."""

_PAGE = re.compile(r"\[[^\]]+\]\(\w+/[^)]+\)")
_DEMANDS_ON_EVERY_RUN = 0
"""How a mutant names them among the invariants that may find it."""


def has_command(text: str) -> bool:
    """Whether `kraft` has that sub-command, with that option at its end if one is given."""
    _kraft, *words = text.split()
    command: click.Command | None = kraft
    for word in words:
        if word.startswith("--"):
            return word == words[-1] and command is not None and any(word in each.opts for each in command.params)
        command = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
    return command is not None


def exists(reference: str) -> bool:
    if reference.startswith("kraft "):
        return has_command(reference)
    if "::" in reference:
        file, _, name = reference.partition("::")
        path = Path(REPOSITORY / "tests" / file)
        return path.exists() and name in names_of_tests(path)
    if reference in NAMES:
        return True
    try:
        resolve(reference)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_every_rule_leads_somewhere_or_gives_a_reason(part: Part) -> None:
    for rule in part.rules:
        assert rule.says
        assert rule.state is State.DONE or rule.remark.endswith((".", ")")), rule
        assert rule.code or rule.tests or rule.remark, rule


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_code_is_that_of_what_is_done(part: Part) -> None:
    for rule in part.rules:
        assert rule.is_done or not rule.code, rule
        assert rule.code or rule.tests or not rule.is_done, rule


def test_every_document_is_read() -> None:
    assert {
        "KIP-595",
        "KIP-642",
        "KIP-853, accepted",
        "KIP-853, the draft under discussion",
        "KIP-853, the draft compared",
    } <= PARTS.keys()
    assert all(len([*part.rules]) > 10 for title, part in PARTS.items() if title.startswith(("KIP-595", "KIP-853")))


@pytest.mark.parametrize("title", ["KIP-630, snapshots", "KIP-996, pre-votes", "Beyond the KIPs"])
def test_every_rule_has_a_function_and_a_test(title: str) -> None:
    assert [rule for rule in PARTS[title].rules if not (rule.code and rule.tests)] == []


def test_as_many_rules_as_ever_have_both() -> None:
    assert sum(bool(rule.code and rule.tests) for rule in RULES) >= PROVED


def test_what_the_rules_name_exists() -> None:
    named = [name for rule in RULES for name in rule.tests]
    named += [name.strip("`") for rule in RULES for name in rule.also if not _PAGE.fullmatch(name)]
    assert len(named) > 300
    assert [name for name in named if not exists(name)] == []
    for rule in RULES:
        for name in rule.code:
            resolve(name)


def test_every_step_of_the_specification_is_in_a_rule_with_its_function() -> None:
    unlisted = {action for some in CONTENT.unlisted for action in some.actions}
    assert all(some.why.endswith(".") for some in CONTENT.unlisted)
    named = {action for rule in RULES for action in rule.actions}
    assert named | unlisted == steps()
    assert not named & unlisted
    code = functions()
    for action in named:
        assert any(action in rule.actions and set(code[action]) <= set(rule.code) for rule in RULES), action


def test_every_mutant_is_in_a_rule_beside_an_invariant_that_finds_it() -> None:
    known = {invariant.number: invariant.__name__ for invariant in INVARIANTS}
    assert {mutant for rule in RULES for mutant in rule.mutants} == MUTANTS.keys()
    for rule in RULES:
        for name in rule.mutants:
            found_by = set(MUTANTS[name].found_by)
            finders = {known[number] for number in found_by - {_DEMANDS_ON_EVERY_RUN}}
            assert finders & set(rule.invariants) or _DEMANDS_ON_EVERY_RUN in found_by, (rule.says, name)


def test_every_invariant_is_in_a_rule() -> None:
    named = {name for rule in RULES for name in rule.invariants}
    assert named == {invariant.__name__ for invariant in INVARIANTS}


@pytest.mark.parametrize(
    "reference",
    [
        "kraft features upgrade --no-such-option",
        "kraft no-such-command",
        "kraft storage format sub",
        "protocol.votes.no_such_function",
        "protocol.no_such_module",
        "no.such.key",
        "no-such-metric",
        "actors/election/test_elections.py::test_no_such",
        "actors/test_no_such.py::test_no_such",
    ],
)
def test_what_does_not_exist_is_noticed(reference: str) -> None:
    assert not exists(reference)
