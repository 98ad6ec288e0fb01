"""TLC's counterexamples to a broken rule are scenarios: they fail on nodes that break the rule, and pass on ours.

That they pass is checked where all scenarios are (tests/simulation/test_scenarios.py).
"""

from __future__ import annotations

import pytest

from kraft_trio.simulation.invariants.elections import DeadIncarnations
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.simulation.invariants.log import LeaderCompleteness
from kraft_trio.simulation.invariants.voter_changes import NoEarlyVoterChange
from scripts.model_checking.models import hazards, models, mutants
from tests.simulation.mutants import MUTANTS, violation_of
from tests.simulation.mutants.runs import SCENARIOS, scenario

COUNTEREXAMPLES: dict[str, tuple[str, type[Invariant] | None]] = {
    "naive_removed_leader_of_four": ("only members of the newest set campaign", None),
    "vote_of_the_set_before": ("votes are counted by the set from before", DeadIncarnations),
    "stale_log_gets_no_vote": ("a stale log gets the vote", LeaderCompleteness),
    "change_before_the_first_commit": ("a change does not wait for the first commit of the epoch", NoEarlyVoterChange),
}
"""By scenario, the broken rule and the invariant that notices; without one, an expectation of the scenario does."""


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_a_counterexample_fails_where_the_rule_is_broken(name: str) -> None:
    mutant, invariant = COUNTEREXAMPLES[name]
    with MUTANTS[mutant].switched_on():
        violation = violation_of(scenario(name), 0)
    assert violation is not None
    assert violation.invariant == (0 if invariant is None else invariant.number), str(violation)


@pytest.mark.parametrize("name", [*COUNTEREXAMPLES, "newcomer_ahead"])
def test_a_counterexample_names_its_model(name: str) -> None:
    text = (SCENARIOS / f"{name}.txt").read_text(encoding="utf-8")
    [model] = [model for model in models() if f"spec/models/{model}.tla" in text]
    if name in COUNTEREXAMPLES:
        mutant, _ = COUNTEREXAMPLES[name]
        assert mutant in [mutant.name for mutant in mutants()]
        assert mutant in " ".join(text.replace("\n# ", " ").split())
    else:
        assert model in [hazard.model for hazard in hazards()]
