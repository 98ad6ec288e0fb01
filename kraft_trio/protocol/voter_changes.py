"""Makes the next voter set of a change, or refuses it (KIP-853 "AddVoter", "RemoveVoter", "UpdateVoter").

Each rule takes the set in force and returns the next one, or a refusal: never half of a change.  Every way out asserts
invariant OverlappingVoterSets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import Voter, VoterSet

MAX_LISTENERS: Final = 16
MAX_NAME: Final = 255
"""Limits for the number of a voter's listeners, and for the characters of a listener's name and host.

Every VotersRecord and every snapshot repeats them for all voters in one batch."""


@attrs.frozen
class Refused:
    """A refused change: the error to answer, and the reason for a human."""

    error: Refusal
    reason: str


def is_single_step(before: VoterSet, after: VoterSet) -> bool:
    """Whether `after` may follow `before`: one replica more or less, new endpoints, or directory ids filled in."""
    return before.has_overlapping_majority(after)


def check_new_voter(voter: Voter, default_listener: str) -> Refused | None:
    """Check a voter that is to be added or updated, independently of the set.  None if it is valid."""
    problem = _problem_with(voter, default_listener)
    return None if problem is None else Refused(Refusal.INVALID_REQUEST, problem)


def _problem_with(voter: Voter, default_listener: str) -> str | None:
    names = [name for name, _ in voter.endpoints]
    if voter.id < 0:
        return f"voter id {voter.id}: expected 0 or more"
    if voter.key.directory_id == NO_DIRECTORY_ID:
        return f"voter {voter.id} has no directory id: expected that of its formatted directory"
    excess = excess_of(voter.endpoints)
    if excess is not None:
        return excess
    if len(set(names)) != len(names):
        return f"listeners {', '.join(names)}: expected each name once"
    if "" in names:
        return f"listeners {', '.join(names)}: a listener without a name"
    if default_listener not in names:
        return f"listeners {', '.join(names) or 'none'}: expected {default_listener}, the quorum's own, among them"
    for name, endpoint in voter.endpoints:
        if not endpoint.host or endpoint.port == 0:
            return f"listener {name} at {endpoint}: expected a host, and a port from 1 on"
    return None


def serves_no_votes(voter: Voter, endpoint: Endpoint) -> Refused:
    """The refusal of a replica that does not serve Vote where the other voters would ask it (KAFKA-19021)."""
    return Refused(
        Refusal.INVALID_REQUEST,
        f"replica {voter.key} serves no votes at {endpoint}: it is a broker, or that is its listener for clients; "
        "expected a controller's listener",
    )


def tells_no_listener(key: ReplicaKey) -> Refused:
    """The refusal of a replica of kraft-trio whose Fetch names no listener, as only a broker's does (KAFKA-19021)."""
    return Refused(
        Refusal.INVALID_REQUEST,
        f"replica {key} has told the leader no listener: it is a broker; expected process.roles=controller",
    )


def excess_of(endpoints: Endpoints) -> str | None:
    """Which limit a replica's listeners exceed, or None."""
    if not len(endpoints):
        return None
    if len(endpoints) > MAX_LISTENERS:
        return f"{len(endpoints)} listeners: expected at most {MAX_LISTENERS}"
    texts = (text for name, endpoint in endpoints for text in (name, endpoint.host))
    too_long = next((text for text in texts if len(text) > MAX_NAME), None)
    if too_long is None:
        return None
    return f"{too_long[:20]}...: {len(too_long)} characters, a listener's name and host have at most {MAX_NAME}"


def add_voter(voters: VoterSet, voter: Voter) -> VoterSet | Refused:
    """The set with one more voter.  DUPLICATE_VOTER if its id is in the set, also with another directory id."""
    known = voters.get(voter.id)
    if known is not None:
        return Refused(Refusal.DUPLICATE_VOTER, f"voter {known.key} is in the set already; it has to be removed first")
    return _checked(voters, VoterSet((*voters, voter)))


def remove_voter(voters: VoterSet, key: ReplicaKey) -> VoterSet | Refused:
    """The set without that replica.  VOTER_NOT_FOUND if the set does not have exactly that one, or no other."""
    known = voters.get(key.id)
    if known is None:
        return Refused(Refusal.VOTER_NOT_FOUND, f"no voter has the id {key.id}: the voters are {_names(voters)}")
    if known.key != key:
        return Refused(
            Refusal.VOTER_NOT_FOUND, f"voter {key.id} has another directory id: it is {known.key}, not {key}"
        )
    if len(voters) == 1:
        return Refused(
            Refusal.VOTER_NOT_FOUND, f"{key} is the only voter: a quorum without voters could never continue"
        )
    return _checked(voters, VoterSet(voter for voter in voters if voter.id != key.id))


def update_voter(voters: VoterSet, voter: Voter) -> VoterSet | Refused:
    """The set with that voter's endpoints and versions.  VOTER_NOT_FOUND if that replica is not in the set.

    A static voter's unknown directory id is filled in; a known one never changes.
    """
    if not voters.is_voter(voter.key):
        return Refused(Refusal.VOTER_NOT_FOUND, f"{voter.key} is not among the voters {_names(voters)}")
    return _checked(voters, VoterSet(voter if known.id == voter.id else known for known in voters))


def upgrade_voters(
    voters: VoterSet, told: Mapping[int, Voter], version: int, observers: Mapping[ReplicaKey, VersionRange]
) -> VoterSet | Refused:
    """The static set, completed by what the voters have told the leader, for the upgrade to that kraft.version.

    INVALID_UPDATE_VERSION if a voter has not told its directory id, or if a voter or observer does not support the
    version.  The reason names all of them.
    """
    known = {voter.id: told.get(voter.id, voter) for voter in voters}
    problems = [
        f"voter {id} has not told its directory id yet"
        for id, voter in known.items()
        if voter.key.directory_id == NO_DIRECTORY_ID
    ]
    problems += [
        f"voter {voter.key} supports {voter.kraft_versions.minimum} to {voter.kraft_versions.maximum}"
        for voter in known.values()
        if voter.key.directory_id != NO_DIRECTORY_ID and not voter.kraft_versions.includes(version)
    ]
    problems += [
        f"observer {key} supports {supported.minimum} to {supported.maximum}"
        for key, supported in sorted(observers.items())
        if not supported.includes(version)
    ]
    if problems:
        return Refused(Refusal.INVALID_UPDATE_VERSION, f"kraft.version {version}: {'; '.join(problems)}")
    return _checked(voters, VoterSet(known.values()))


def check_kraft_version(
    current: int, wanted: int, supported: VersionRange, *, is_downgrade: bool = False
) -> Refused | None:
    """Check a change of kraft.version.  It never falls, and never exceeds what this build supports.

    A request for a downgrade does not raise it either, because that could not be undone.
    """
    if not supported.includes(wanted):
        return Refused(
            Refusal.INVALID_UPDATE_VERSION,
            f"kraft.version {wanted}: expected {supported.minimum} to {supported.maximum}",
        )
    if wanted < current:
        return Refused(
            Refusal.INVALID_UPDATE_VERSION, f"kraft.version {wanted}: it is {current}, and cannot be taken back"
        )
    if is_downgrade and wanted > current:
        return Refused(Refusal.INVALID_UPDATE_VERSION, f"kraft.version {wanted}: it is {current}, that is no downgrade")
    return None


def _checked(before: VoterSet, after: VoterSet) -> VoterSet:
    assert is_single_step(before, after), f"{_names(before)} -> {_names(after)}: more than one replica at once"
    return after


def _names(voters: VoterSet) -> str:
    return ", ".join(str(voter.key) for voter in voters)
