"""The invariants as a whole: all of them are there, and each accusation that one can make has been made."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kraft_trio.simulation import invariants
from kraft_trio.simulation.invariants import INVARIANTS, Invariant
from kraft_trio.simulation.invariants.checker import Checker
from kraft_trio.simulation.violation import InvariantViolated, Violation
from tests.simulation import (
    test_invariants_clients,
    test_invariants_commits,
    test_invariants_elections,
    test_invariants_log,
    test_invariants_old_copies,
    test_invariants_outsiders,
    test_invariants_reads,
    test_invariants_snapshots,
    test_invariants_voters,
    test_invariants_witnesses,
)
from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.invariant_stories import Story

STORIES: list[Story] = [
    *test_invariants_elections.STORIES.all,
    *test_invariants_outsiders.STORIES.all,
    *test_invariants_log.STORIES.all,
    *test_invariants_commits.STORIES.all,
    *test_invariants_voters.STORIES.all,
    *test_invariants_snapshots.STORIES.all,
    *test_invariants_clients.STORIES.all,
    *test_invariants_reads.STORIES.all,
    *test_invariants_witnesses.STORIES.all,
    *test_invariants_old_copies.STORIES.all,
]


def test_there_is_one_class_for_each_number_with_its_argument() -> None:
    assert [invariant.number for invariant in INVARIANTS] == list(range(1, 29))
    for invariant in INVARIANTS:
        assert len(invariant.title) < 100
        assert invariant.__doc__ is not None, f"{invariant.__name__} gives no argument"
        assert len(invariant.__doc__) > 200, f"{invariant.__name__} gives no argument"


def test_every_invariant_has_stories() -> None:
    assert {story.number for story in STORIES} == set(range(1, 29))
    names = [story.name for story in STORIES]
    assert len(set(names)) == len(names)


def accusations() -> dict[tuple[str, int], int]:
    """Where an invariant says that it is violated: file and first line of each call, and its last line."""
    assert invariants.__file__ is not None
    found = {}
    for path in Path(invariants.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and node.func.attr == "violated":
                found[path.name, node.lineno] = node.end_lineno or node.lineno
    return found


def test_every_accusation_is_made_in_some_story() -> None:
    """A checker that has never fired is not a checker: each place in the code that reports a violation has, here."""
    seen = {site for story in STORIES for site in story.tell().sites}
    silent = [
        f"{name}:{first}"
        for (name, first), last in sorted(accusations().items())
        if not any(site_name == name and first <= line <= last for site_name, line in seen)
    ]
    assert not silent, f"no story makes these fire: {', '.join(silent)}"


class Counting(Invariant):
    """Overrides one hook."""

    number = 99
    title = "counting"
    calls = 0

    def synced(self, replica: object, end_offset: int) -> None:
        type(self).calls += 1


def test_a_checker_asks_only_who_overrides_a_hook() -> None:
    cluster = FabricatedCluster([Counting])
    cluster.elect(1, by=[2])
    assert Counting.calls == 0
    cluster.sync(1)
    assert Counting.calls == 1


def test_a_checker_can_be_given_other_invariants() -> None:
    cluster = FabricatedCluster([])
    assert cluster.checker.invariants == ()
    assert len(Checker(cluster.facts, cluster.violate).invariants) == 28


def test_the_report_of_a_violation_names_everything() -> None:
    violation = Violation(9, "the high watermark never falls", 12.5, ("it was 7", "now it is 5"), (1, 2))
    error = InvariantViolated(violation, 4711, ["event one", "event two"])
    assert str(error).splitlines() == [
        "seed 4711: invariant 9 (the high watermark never falls) is violated at 12.500000 s: it was 7; but now it is 5",
        "    event one",
        "    event two",
    ]
    with pytest.raises(AssertionError, match="simulation \\(a node ended\\)"):
        raise InvariantViolated(Violation(0, "a node ended", 0.0, ("one fact",)), 1)
