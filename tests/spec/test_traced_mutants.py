"""Traces alone give broken rules away: the specification refuses them, and no invariant has looked at the run."""

from __future__ import annotations

import attrs
import pytest

from scripts.model_checking.tlc import TlcMissingError, jar
from scripts.trace_checking.checking import check
from scripts.trace_checking.steps import steps_of
from tests.simulation.mutants import MUTANTS
from tests.spec.traced import traced

STEPS = 400
"""A trace is followed so far."""

REFUSED = {
    "the vote given is ignored": (0, 7.2),
    "a vote is not stored": (0, 1.3),
    "the vote is forgotten at a restart": (0, 1.5),
    "the vote is dropped when the leader is known": (0, 1.3),
    "a lost candidate forgets its own vote": (0, 1.5),
    "a stale log gets the vote": (0, 1.9),
    "logs are compared by length first": (3, 2.9),
    "a majority of pre votes makes a leader": (0, 1.3),
    "a pre vote granted is stored as a vote": (0, 1.3),
    "asking for pre votes raises the epoch": (0, 1.3),
    "a lost leader is forgotten in its epoch": (0, 4.1),
    "a minority of votes elects": (0, 1.3),
    "a refusal counts as a vote": (0, 7.2),
    "a restarted leader leads on": (0, 3.6),
    "a restarted leader asks for its epoch again": (0, 3.6),
    "a commit needs one voter fewer": (0, 1.3),
    "records of older epochs are committed by counting": (0, 1.3),
    "the epoch after a restart is that of the log": (0, 1.5),
    "a leader appends in the epoch of its log": (0, 4.1),
    "a higher epoch seen is not stored": (0, 4.4),
    "the tasks of an epoch go on in the next": (0, 9.5),
    "the role changes before its tasks have ended": (0, 8.5),
    "the leader counts its unsynced end": (0, 1.1),
    "a new leader tells the high watermark it knew": (0, 6.6),
    "a diverging follower counts as far as it says": (0, 2.1),
    "divergence is never told": (0, 1.7),
    "only a log too long diverges": (0, 1.7),
    "a follower fetches before its fsync": (0, 1.3),
}
"""By mutant, a seed of its run, and how many virtual seconds of it."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", REFUSED)
def test_a_trace_gives_a_broken_rule_away(name: str) -> None:
    """The same run of the nodes as they are is a behaviour of the specification."""
    try:
        tlc_jar = jar(fetch=False)
    except TlcMissingError as missing:
        pytest.skip(str(missing))
    mutant, (seed, until_s) = MUTANTS[name], REFUSED[name]
    with mutant.switched_on():
        broken = steps_of(traced(mutant.run, seed, until_s))
    whole = steps_of(traced(mutant.run, seed, until_s))
    verdicts = [
        check(tlc_jar, [attrs.evolve(steps, steps=steps.steps[:STEPS])]).verdicts[0] for steps in (broken, whole)
    ]
    assert verdicts[0].refusal is not None
    assert verdicts[1].refusal is None, verdicts[1].refusal.told()


def test_the_mutants_exist() -> None:
    assert set(REFUSED) <= set(MUTANTS)
