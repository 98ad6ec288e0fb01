"""Mutants of the restraint of witnesses."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kraft_trio.actors.kafka.witness_handover import WitnessHandover
from kraft_trio.actors.kafka.witness_restraint import WitnessRestraint

from .mutant import Change, mutant
from .runs import scenario, script

TWO_SITES = scenario("witness_of_two_sites")
RESTARTS = script(
    "restarts of a quorum with a witness",
    """
    voters 1 2 3
    witnesses 3
    wait 5s
    restart 1 2 3
    wait 5s
    """,
)


@mutant(breaks="a witness leaves elections to the other voters", found_by=(26,), run=RESTARTS, seeds=10)
def witnesses_campaign_like_others() -> Iterable[Change]:
    return [
        (WitnessRestraint, "may_lead", lambda *_: True),
        (WitnessRestraint, "asks_at_s", lambda *_: -math.inf),
    ]


@mutant(breaks="a witness leads if the other voter is behind", found_by=(0,), run=TWO_SITES)
def witnesses_never_lead() -> Iterable[Change]:
    return [(WitnessRestraint, "may_lead", lambda *_: False)]


@mutant(breaks="a witness hands over to a voter that has its log", found_by=(27, 0), run=TWO_SITES)
def witnesses_do_not_hand_over() -> Iterable[Change]:
    return [(WitnessHandover, "_successor", lambda *_: None)]
