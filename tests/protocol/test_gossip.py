"""Which advertisements are accepted, and where requests to a voter go (KIP-642)."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.gossip import (
    MAX_BOOT,
    MAX_ENDPOINTS,
    MAX_NAME_CHARACTERS,
    Advertisement,
    Allowance,
    Whereabouts,
    boot_to_overtake,
    choose_endpoint,
)
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet

KEYS = [ReplicaKey(id, UUID(int=id + 1)) for id in range(4)]
VOTERS = VoterSet(Voter(key) for key in KEYS[1:])
HERE, THERE, ELSEWHERE = (Endpoint(host, 9093) for host in ("here", "there", "elsewhere"))


def at(endpoint: Endpoint, *, id: int = 2, boot: int = 5, epoch: int = 3) -> Advertisement:
    return Advertisement(KEYS[id], boot, epoch, Endpoints({"CONTROLLER": endpoint}))


def knowing(*advertisements: Advertisement) -> Whereabouts:
    known = Whereabouts()
    for advertisement in advertisements:
        known = known.with_advertisement(advertisement)
    return known


@pytest.mark.parametrize(
    ("heard", "refusal"),
    [
        (at(THERE, boot=6), None),
        (at(THERE, boot=6, epoch=0), None),
        (at(THERE, epoch=4), None),
        (at(THERE), "not newer"),
        (at(THERE, boot=4, epoch=9), "not newer"),
        (at(THERE, epoch=2), "not newer"),
        (at(THERE, id=1, boot=1), None),
        (at(THERE, id=0), "not a voter"),
        (attrs.evolve(at(THERE, boot=6), key=ReplicaKey(2, UUID(int=99))), "not a voter"),
    ],
)
def test_advertisements_of_a_voter_are_accepted_in_order(heard: Advertisement, refusal: str | None) -> None:
    assert knowing(at(HERE)).refusal(heard, VOTERS) == refusal


@pytest.mark.parametrize(
    "defective",
    [
        at(HERE, boot=0),
        at(HERE, boot=MAX_BOOT + 1),
        at(HERE, epoch=-1),
        at(Endpoint("", 1)),
        at(Endpoint("h" * (MAX_NAME_CHARACTERS + 1), 1)),
        at(Endpoint("new\nline", 1)),
        at(Endpoint("h\u00f6st", 1)),
        at(Endpoint("host", 0)),
        at(Endpoint("host", 65536)),
        attrs.evolve(at(HERE), endpoints=Endpoints()),
        attrs.evolve(at(HERE), endpoints=Endpoints([("", HERE)])),
        attrs.evolve(at(HERE), endpoints=Endpoints([("A", HERE), ("A", THERE)])),
        attrs.evolve(at(HERE), endpoints=Endpoints([(f"L{number}", HERE) for number in range(MAX_ENDPOINTS + 1)])),
    ],
)
def test_values_out_of_bounds_are_refused(defective: Advertisement) -> None:
    assert Whereabouts().refusal(defective, VOTERS) == defective.defect()
    assert defective.defect() is not None


def test_a_wrong_advertisement_yields_to_any_other() -> None:
    lie = at(ELSEWHERE, boot=MAX_BOOT)
    known = knowing(lie)
    assert known.refusal(at(HERE), VOTERS) == "not newer"
    doubted = known.doubting(2)
    assert doubted.refusal(lie, VOTERS) == "not newer"
    assert doubted.refusal(at(HERE), VOTERS) is None
    corrected = doubted.with_advertisement(at(HERE))
    assert corrected.by_id[2] == at(HERE)
    assert corrected.refusal(at(THERE), VOTERS) == "not newer"


def test_an_endpoint_that_answers_is_trusted_again() -> None:
    assert knowing(at(HERE)).doubting(2).trusting(2).refusal(at(THERE, boot=4), VOTERS) == "not newer"


def test_a_removed_voters_whereabouts_are_forgotten() -> None:
    known = knowing(at(HERE), at(THERE, id=1)).doubting(2)
    left = known.of_voters(VoterSet([Voter(KEYS[1])]))
    assert list(left) == [at(THERE, id=1)]
    assert left.doubted == frozenset()


@pytest.mark.parametrize(
    ("heard", "boot"),
    [
        (at(ELSEWHERE, boot=8), 9),
        (at(ELSEWHERE), 6),
        (at(ELSEWHERE, boot=4), None),
        (at(HERE, boot=8), None),
        (at(ELSEWHERE, id=1, boot=8), None),
        (at(ELSEWHERE, boot=MAX_BOOT), None),
    ],
)
def test_a_voter_overtakes_false_statements_of_itself(heard: Advertisement, boot: int | None) -> None:
    assert boot_to_overtake(at(HERE), heard) == boot


def test_the_logged_endpoint_comes_first_and_they_take_turns() -> None:
    assert choose_endpoint(HERE, THERE, None) == HERE
    assert choose_endpoint(HERE, THERE, HERE) == THERE
    assert choose_endpoint(HERE, THERE, THERE) == HERE
    assert choose_endpoint(HERE, None, HERE) == HERE
    assert choose_endpoint(None, THERE, THERE) == THERE
    assert choose_endpoint(None, None, None) is None


ADVERTISEMENTS = st.builds(
    lambda id, boot, epoch, host: at(Endpoint(host, 1), id=id, boot=boot, epoch=epoch),
    st.integers(0, 3),
    st.integers(-1, 4),
    st.integers(-1, 3),
    st.sampled_from(["a", "b", ""]),
)


@given(st.lists(st.tuples(ADVERTISEMENTS, st.booleans()), max_size=30))
def test_ranks_rise_and_only_voters_are_kept(heard: list[tuple[Advertisement, bool]]) -> None:
    """Any advertisements in any order; the flag says that the voter is then not found there."""
    known = Whereabouts()
    for advertisement, is_wrong in heard:
        before = known
        if known.refusal(advertisement, VOTERS) is None:
            known = known.with_advertisement(advertisement)
        for id, now in known.by_id.items():
            was = before.by_id.get(id)
            assert now.defect() is None
            assert id in VOTERS.ids
            assert was is None or was == now or now.rank > was.rank or id in before.doubted
        if is_wrong:
            known = known.doubting(advertisement.key.id)


def test_an_allowance_refills_with_time() -> None:
    allowance = Allowance(burst=2, period_s=1.0)
    assert [allowance.take(10.0) for _ in range(3)] == [True, True, False]
    assert [allowance.take(10.5) for _ in range(2)] == [True, False]
    assert [allowance.take(99.0) for _ in range(3)] == [True, True, False]
