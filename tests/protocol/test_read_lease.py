"""How long a leader may answer reads without asking a majority."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quorum_builders import key, static_voters, voters

from kraft_trio.protocol.read_lease import ReadLease, lease_ms, promised_wait_ms
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet

DRIFT = 0.1

CASES: list[tuple[str, VoterSet, dict[ReplicaKey, int], float]] = [
    ("one voter", voters(1), {}, 1100),
    ("the shortest promise", voters(1, 2, 3), {key(2): 550, key(3): 2200}, 550),
    ("the leader's own", voters(1, 2, 3), {key(2): 2200, key(3): 2200}, 1100),
    ("a voter that promises nothing", voters(1, 2, 3), {key(2): 550, key(3): 0}, 0),
    ("a voter that has not been heard", voters(1, 2, 3), {key(2): 550}, 0),
    ("another disk of the voter", voters(1, 2), {key(2, "b"): 550}, 0),
    ("a leader outside the set", voters(2, 3), {key(2): 550, key(3): 550}, 0),
    ("static voters: the shortest of all disks", static_voters(1, 2), {key(2): 550, key(2, "b"): 330}, 330),
]


def a_lease(promises: dict[ReplicaKey, int]) -> ReadLease:
    lease = ReadLease(key(1), 1100, DRIFT)
    for voter, wait_ms in promises.items():
        lease.promise(voter, wait_ms)
    return lease


@pytest.mark.parametrize(("members", "promises", "wait_ms"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_every_voter_must_promise(members: VoterSet, promises: dict[ReplicaKey, int], wait_ms: float) -> None:
    assert a_lease(promises).length_s(members) == pytest.approx(lease_ms(wait_ms, DRIFT) / 1000)


@given(
    wait_ms=st.integers(1, 100_000),
    drift=st.floats(0, 0.5),
    leader=st.floats(-1, 1),
    successor=st.floats(-1, 1),
)
def test_no_drift_within_the_limit_lets_a_lease_outlive_the_wait(
    wait_ms: int, drift: float, leader: float, successor: float
) -> None:
    lasts_ms = lease_ms(wait_ms, drift) / (1 + leader * drift)
    waits_ms = wait_ms / (1 + successor * drift)
    assert lasts_ms <= waits_ms * (1 + 1e-9)


def test_a_lease_begins_with_its_round_and_not_with_the_confirmation() -> None:
    lease = a_lease({key(2): 1100})
    members = voters(1, 2)
    lease.round_began(1, 10.0)
    lease.round_began(1, 10.5)
    lease.round_began(2, 20.0)
    assert not lease.holds(members, 10.0)
    assert lease.awaits_round
    lease.confirmed(1)
    assert lease.holds(members, 10.89)
    assert not lease.is_half_over(members, 10.44)
    assert lease.is_half_over(members, 10.46)
    assert not lease.holds(members, 10.91)
    lease.confirmed(2)
    assert lease.began_s == 20.0
    assert not lease.awaits_round


def test_a_voter_without_leases_cannot_be_elected_before_the_wait_is_over() -> None:
    """A restarted voter needs at least one election timeout, on a clock that runs at half the pace at worst."""
    assert promised_wait_ms(1000) == 500
