"""The actions that a run is said to take are those of the specification, and those that its trace is checked for."""

from __future__ import annotations

import re

import pytest

from kraft_trio.simulation.campaign.reached import REACHABLE, name_of_pair, packed, unpacked
from kraft_trio.simulation.campaign.seed_run import run_plan
from kraft_trio.simulation.facts.actions import ACTIONS, PAIRS
from kraft_trio.simulation.faults.nemesis import PlanOptions, make_plan
from kraft_trio.tracing.events import TraceEvent
from scripts.model_checking.models import SPEC
from scripts.trace_checking.steps import steps_of

MUTATION_ALONE = "ReplaceAtOnce"

BY_STEP = {
    "restart": {"Restart"},
    "swap": {"SwapDisk"},
    "leads": {"BecomeLeader"},
    "prevote": {"GrantPreVote"},
    "snapshot": {"TakeSnapshot"},
    "trim": {"Trim"},
    "install": {"InstallSnapshot"},
    "truncate": {"Truncate"},
    "sync": {"Sync"},
    "hw": {"AdvanceHighWatermark", "LearnHighWatermark"},
}
"""By the kind of a step that TLC follows, the actions that it can be."""


def test_the_actions_are_those_of_the_specification() -> None:
    text = (SPEC / "KRaft.tla").read_text()
    following = re.search(r"^Next ==\n((?:.+\n)+)", text, re.MULTILINE)
    assert following is not None
    assert set(re.findall(r"\\/ ([A-Z]\w+)\(|: ([A-Z]\w+)\(", following[1])) == {(name, "") for name in ACTIONS} | {
        ("", MUTATION_ALONE)
    }


@pytest.mark.parametrize("seed", [6, pytest.param(15, marks=pytest.mark.rotating(5))])
def test_a_run_takes_the_actions_that_its_trace_shows(seed: int) -> None:
    events: list[TraceEvent] = []
    options = PlanOptions(duration_us=10_000_000, profiles=("disk", "process", "membership", "snapshots"))
    outcome = run_plan(make_plan(seed, options), lambda trace: trace.listeners.append(events.append))
    assert outcome.failure is None
    kinds = {step.kind for step in steps_of(events).steps}
    for kind, actions in BY_STEP.items():
        assert (kind in kinds) == bool(outcome.reached & actions), kind
    assert outcome.reached >= {"BecomeProspective", "HearOfLeader", "Fetch", "AppendRecord"}
    assert outcome.reached & set(map(name_of_pair, PAIRS))


def test_no_run_has_neighbours_that_the_roles_exclude() -> None:
    """Neighbours that are in no table would be dropped: each action but a node's first one has some before it."""
    outcome = run_plan(make_plan(1, PlanOptions(duration_us=10_000_000, profiles=("process",))))
    followers = {name.partition(" > ")[2] for name in outcome.reached if " > " in name}
    assert outcome.reached & set(ACTIONS) == followers | (outcome.reached & {"BecomeProspective", "GrantPreVote"})


def test_what_is_reached_is_packed_and_unpacked() -> None:
    names = {REACHABLE[0], REACHABLE[7], REACHABLE[-1]}
    assert {REACHABLE[number] for number in unpacked(packed(names))} == names
    assert unpacked(packed(())) == []
    assert len(set(REACHABLE)) == len(REACHABLE)
