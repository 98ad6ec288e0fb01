"""Kafka's TestRaftServer and our nodes vote in one quorum, and either leads the other."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TypeAlias

import pytest

from harness.kafka import kafka_version
from tests.interop.mixed_quorum import KAFKA, LONG_MS, OURS, MixedQuorum

pytestmark = pytest.mark.skipif(kafka_version() < (3, 9), reason="needs a TestRaftServer that knows KIP-853")

Make: TypeAlias = Callable[..., MixedQuorum]

QUORUMS = {
    f"{kind}-between-two-{other}-{'static' if static else 'dynamic'}": ((kind, other, other), static)
    for kind, other in ((OURS, KAFKA), (KAFKA, OURS))
    for static in (False, True)
}
"""Node 1 differs from the other two, so that every change of the leader between it and them crosses over."""

SHORTEST = f"{OURS}-between-two-{KAFKA}-dynamic"
SLOW = [pytest.param(*of, id=id, marks=[] if id == SHORTEST else pytest.mark.nightly) for id, of in QUORUMS.items()]
EACH = [pytest.param(*of, id=id, marks=pytest.mark.nightly) for id, of in QUORUMS.items()]

QUICK, PATIENT = {"election": 500, "fetch": 2000}, {"election": 4000, "fetch": 2000}
STEADY = {"election": 6000, "fetch": LONG_MS}
"""A follower does not miss its leader, and a leader does not miss its followers.

A leader of ours that ends tells its followers so for one election timeout, and a busy machine may take a second of it.
"""


@pytest.mark.parametrize(("kinds", "static"), SLOW)
def test_the_others_take_over_when_a_leader_is_killed(make_mixed: Make, kinds: tuple[str, ...], static: bool) -> None:
    quorum = make_mixed(*kinds, static=static)
    quorum.run(1, **QUICK)
    quorum.run(2, 3, **PATIENT)
    quorum.let_lead(1, **PATIENT)
    for value in ("first", "second"):
        lost = quorum.write(f"before the {value} loss")
        quorum.wait_until_equal(f"before the {value} loss")
        quorum.end(lost)
        quorum.write(f"without the {value}")
        quorum.run(lost, **PATIENT)
        quorum.wait_until_equal(f"without the {value}")
    for node_id in (2, 3):
        quorum.end(node_id)
    quorum.run(2, 3, **PATIENT)
    quorum.write("after a restart")
    quorum.wait_until_equal("without the first", "without the second", "after a restart")


@pytest.mark.parametrize(("kinds", "static"), EACH)
def test_a_leader_hands_over_when_it_is_asked_to_end(make_mixed: Make, kinds: tuple[str, ...], static: bool) -> None:
    """Nobody campaigns because of a timeout here, except at the start."""
    quorum = make_mixed(*kinds, static=static)
    quorum.run(1, election=2000, fetch=LONG_MS)
    quorum.run(2, 3, **STEADY)
    quorum.let_lead(1, **STEADY)
    for number in range(2):
        leader = quorum.write(f"before {number}")
        quorum.wait_until_equal(f"before {number}")
        quorum.end(leader, signal.SIGTERM)
        assert quorum.write(f"without {number}") != leader
        quorum.run(leader, **STEADY)
        quorum.wait_until_equal(f"without {number}")


@pytest.mark.parametrize(("kinds", "static"), EACH)
def test_what_a_lost_leader_alone_has_is_cut_off(make_mixed: Make, kinds: tuple[str, ...], static: bool) -> None:
    """It appends while the others are down, and follows them when it is back."""
    quorum = make_mixed(*kinds, static=static)
    quorum.run(1, election=500, fetch=LONG_MS)
    quorum.run(2, 3, **PATIENT)
    quorum.let_lead(1, **PATIENT)
    quorum.write("common")
    quorum.wait_until_equal("common")
    for node_id in (2, 3):
        quorum.end(node_id)
    before = quorum.log(1)
    for value in ("tail 1", "tail 2"):
        quorum.propose(1, value)
    assert quorum.log(1).startswith(before)
    quorum.end(1)
    quorum.run(2, 3, **QUICK)
    quorum.write("instead")
    quorum.run(1, **PATIENT)
    log = quorum.wait_until_equal("common", "instead")
    assert b"tail" not in log
    assert log.startswith(before)
