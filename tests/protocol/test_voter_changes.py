"""What a change makes of a voter set, and every reason to refuse one (KIP-853)."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_changes import (
    MAX_LISTENERS,
    MAX_NAME,
    Refused,
    add_voter,
    check_kraft_version,
    check_new_voter,
    is_single_step,
    remove_voter,
    update_voter,
    upgrade_voters,
)
from kraft_trio.protocol.voter_set import Voter, VoterSet
from tests.protocol.quorum_builders import endpoints_of, key, static_voters, voters

DYNAMIC = VersionRange(0, 1)
MOVED = Endpoints({"CONTROLLER": Endpoint("elsewhere", 1)})


def voter(id: int, disk: str = "a", endpoints: Endpoints | None = None, versions: VersionRange = DYNAMIC) -> Voter:
    return Voter(key(id, disk), endpoints_of(id) if endpoints is None else endpoints, versions)


def refusal(outcome: object) -> str | None:
    return outcome.error if isinstance(outcome, Refused) else None


ADDED: list[tuple[str, VoterSet, Voter, tuple[ReplicaKey, ...] | str]] = [
    ("a second one", voters(1), voter(2), (key(1), key(2))),
    ("a fourth, ids in order", voters(1, 3, 4), voter(2), (key(1), key(2), key(3), key(4))),
    ("one that is in", voters(1, 2, 3), voter(3), "DUPLICATE_VOTER"),
    ("an id that is in, on another disk", voters(1, 2, 3), voter(3, "b"), "DUPLICATE_VOTER"),
]


@pytest.mark.parametrize(("before", "new", "after"), [case[1:] for case in ADDED], ids=[case[0] for case in ADDED])
def test_add(before: VoterSet, new: Voter, after: tuple[ReplicaKey, ...] | str) -> None:
    outcome = add_voter(before, new)
    if isinstance(outcome, Refused):
        assert outcome.error == after
        assert str(before.get(new.id).key) in outcome.reason  # type: ignore[union-attr]
    else:
        assert tuple(voter.key for voter in outcome) == after
        assert outcome.get(new.id) == new, "with its endpoints and versions"


REMOVED: list[tuple[str, VoterSet, ReplicaKey, tuple[ReplicaKey, ...] | str]] = [
    ("one of three", voters(1, 2, 3), key(2), (key(1), key(3))),
    ("one of two", voters(1, 2), key(1), (key(2),)),
    ("the last one", voters(1), key(1), "VOTER_NOT_FOUND"),
    ("no such id", voters(1, 2, 3), key(4), "VOTER_NOT_FOUND"),
    ("another disk", voters(1, 2, 3), key(3, "b"), "VOTER_NOT_FOUND"),
    ("without its directory id", voters(1, 2, 3), key(3, "?"), "VOTER_NOT_FOUND"),
]


@pytest.mark.parametrize(("before", "gone", "after"), [case[1:] for case in REMOVED], ids=[c[0] for c in REMOVED])
def test_remove(before: VoterSet, gone: ReplicaKey, after: tuple[ReplicaKey, ...] | str) -> None:
    outcome = remove_voter(before, gone)
    if isinstance(outcome, Refused):
        assert outcome.error == after
    else:
        assert tuple(voter.key for voter in outcome) == after


def test_a_refused_removal_says_why() -> None:
    assert "no voter has the id 4" in remove_voter(voters(1, 2), key(4)).reason  # type: ignore[union-attr]
    another = remove_voter(voters(1, 2), key(2, "b"))
    assert isinstance(another, Refused)
    assert str(key(2)) in another.reason
    assert str(key(2, "b")) in another.reason
    assert "only voter" in remove_voter(voters(1), key(1)).reason  # type: ignore[union-attr]


def test_an_update_changes_only_what_the_voter_says_of_itself() -> None:
    before = VoterSet([voter(1), voter(2), voter(3)])
    after = update_voter(before, voter(2, endpoints=MOVED, versions=VersionRange(1, 1)))
    assert after == VoterSet([voter(1), voter(2, endpoints=MOVED, versions=VersionRange(1, 1)), voter(3)])
    assert update_voter(before, voter(2)) == before


def test_update_fills_in_a_directory_id_once() -> None:
    """KIP-853 "Automatic endpoint and directory id discovery": the leader overrides it only where it was not set."""
    filled = update_voter(static_voters(1, 2), voter(2))
    assert isinstance(filled, VoterSet)
    assert filled.get(2) == voter(2)
    assert refusal(update_voter(filled, voter(2, "b"))) == "VOTER_NOT_FOUND"


@pytest.mark.parametrize("stranger", [voter(4), voter(3, "b")], ids=["no such id", "another disk"])
def test_only_voters_are_updated(stranger: Voter) -> None:
    assert refusal(update_voter(voters(1, 2, 3), stranger)) == "VOTER_NOT_FOUND"


# The upgrade

ALL_TOLD = {id: voter(id) for id in (1, 2, 3)}


def test_the_upgrade_takes_what_the_static_voters_have_told() -> None:
    told = ALL_TOLD | {2: voter(2, endpoints=MOVED)}
    after = upgrade_voters(static_voters(1, 2, 3), told, 1, {})
    assert after == VoterSet([voter(1), voter(2, endpoints=MOVED), voter(3)])


def test_what_others_have_told_is_not_in_the_upgrade() -> None:
    after = upgrade_voters(static_voters(1, 2), ALL_TOLD, 1, {})
    assert after == VoterSet([voter(1), voter(2)])


def test_the_upgrade_names_everybody_who_is_in_the_way() -> None:
    told = {1: voter(1), 2: voter(2, versions=VersionRange(0, 0))}
    observers = {key(5): VersionRange(0, 0), key(4): VersionRange(0, 1)}
    refused = upgrade_voters(static_voters(1, 2, 3), told, 1, observers)
    assert isinstance(refused, Refused)
    assert refused.error == "INVALID_UPDATE_VERSION"
    assert "voter 3 has not told its directory id" in refused.reason
    assert f"voter {key(2)} supports 0 to 0" in refused.reason
    assert f"observer {key(5)} supports 0 to 0" in refused.reason
    assert str(key(1)) not in refused.reason
    assert str(key(4)) not in refused.reason


@pytest.mark.parametrize(
    ("current", "wanted", "error"),
    [
        (0, 1, None),
        (1, 1, None),
        (0, 0, None),
        (1, 0, "INVALID_UPDATE_VERSION"),
        (1, 2, "INVALID_UPDATE_VERSION"),
        (0, -1, "INVALID_UPDATE_VERSION"),
    ],
)
def test_kraft_version_goes_up_and_only_as_far_as_is_known(current: int, wanted: int, error: str | None) -> None:
    refused = check_kraft_version(current, wanted, VersionRange(0, 1))
    assert refusal(refused) == error
    assert refused is None or str(wanted) in refused.reason


def test_what_is_asked_for_as_a_downgrade_raises_nothing() -> None:
    refused = check_kraft_version(0, 1, VersionRange(0, 1), is_downgrade=True)
    assert refusal(refused) == "INVALID_UPDATE_VERSION"
    assert check_kraft_version(1, 1, VersionRange(0, 1), is_downgrade=True) is None


# What a voter may look like


def listener(name: str = "CONTROLLER", host: str = "host", port: int = 1) -> tuple[str, Endpoint]:
    return name, Endpoint(host, port)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"key": ReplicaKey(-1, UUID(int=7))}, "voter id -1: expected 0 or more"),
        ({"key": ReplicaKey(3, NO_DIRECTORY_ID)}, "voter 3 has no directory id"),
        ({"endpoints": Endpoints()}, "listeners none: expected CONTROLLER"),
        ({"endpoints": Endpoints([listener("OTHER")])}, "listeners OTHER: expected CONTROLLER"),
        ({"endpoints": Endpoints([listener(), listener(host="x")])}, "expected each name once"),
        ({"endpoints": Endpoints([listener(host="")])}, "expected a host, and a port from 1 on"),
        ({"endpoints": Endpoints([listener(port=0)])}, "expected a host, and a port from 1 on"),
        ({"endpoints": Endpoints([listener(), listener("OTHER", port=0)])}, "listener OTHER"),
        ({"endpoints": Endpoints([listener(), listener("")])}, "a listener without a name"),
        ({"endpoints": Endpoints([listener(host="x" * (MAX_NAME + 1))])}, f"at most {MAX_NAME}"),
        ({"endpoints": Endpoints([listener(), listener("N" * (MAX_NAME + 1))])}, f"at most {MAX_NAME}"),
        (
            {"endpoints": Endpoints([listener(), *(listener(f"L{n}") for n in range(MAX_LISTENERS))])},
            f"{MAX_LISTENERS + 1} listeners: expected at most {MAX_LISTENERS}",
        ),
    ],
)
def test_a_voter_that_cannot_be_one_is_an_invalid_request(changes: dict[str, object], complaint: str) -> None:
    refused = check_new_voter(attrs.evolve(voter(3), **changes), "CONTROLLER")  # type: ignore[arg-type]
    assert refused is not None
    assert refused.error == "INVALID_REQUEST"
    assert complaint in refused.reason
    assert len(refused.reason) < 600, "what was sent is quoted in part"


def test_a_voter_may_have_many_listeners_with_long_names() -> None:
    largest = [listener(), *(listener("N" * (MAX_NAME - 2) + f"{n:02}", "h" * MAX_NAME) for n in range(1, 16))]
    assert check_new_voter(voter(3, endpoints=Endpoints(largest)), "CONTROLLER") is None


# Whatever is asked for, one replica at most comes or goes


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "update"]), st.integers(1, 5), st.sampled_from("ab")), max_size=30
    )
)
def test_any_history_is_single_steps_and_never_without_voters(steps: list[tuple[str, int, str]]) -> None:
    members = voters(1)
    for what, id, disk in steps:
        match what:
            case "add":
                outcome = add_voter(members, voter(id, disk))
            case "remove":
                outcome = remove_voter(members, key(id, disk))
            case _:
                outcome = update_voter(members, voter(id, disk, MOVED))
        if not isinstance(outcome, Refused):
            old, new = {one.key for one in members}, {one.key for one in outcome}
            assert len(old ^ new) <= 1
            assert is_single_step(members, outcome)
            members = outcome
        assert len(members) > 0
