"""Resolves the replicas that a target names, as the leader knows them (KIP-642).

An administrator may name ids alone.  The id of a voter means that voter, unless it is silent and another replica with
its id fetches: then its disk has been replaced.  Any other id means the replica with that id that fetches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.protocol.voter_set import VoterSet

MAX_TARGET_VOTERS = 100


def resolve_target(
    named: Iterable[ReplicaKey],
    voters: VoterSet,
    present: Collection[ReplicaKey],
    can_vote: Collection[ReplicaKey],
    pending: Collection[ReplicaKey] = (),
) -> tuple[ReplicaKey, ...] | Refused:
    """The target voters, sorted.  INVALID_REPLICA_ASSIGNMENT, naming all problems, if a replica cannot be used.

    `present` are the voters and observers that fetch; `can_vote` are the observers that have told a valid listener.
    `pending` is the target of the reassignment under way.  Its ids name the same replicas again, unless another one
    fetches with such an id.
    """
    wanted = list(named)
    ids = sorted(key.id for key in wanted)
    if not wanted:
        return _refused("no voters: a quorum without voters could never continue")
    if len(wanted) > MAX_TARGET_VOTERS:
        return _refused(f"{len(wanted)} voters: expected at most {MAX_TARGET_VOTERS}")
    if len(set(ids)) < len(ids):
        return _refused(f"voters {', '.join(str(key.id) for key in wanted)}: expected each id once")
    named_before = pending if ids == sorted(key.id for key in pending) else ()
    problems, target = [], []
    for key in wanted:
        found = _replica_of(key, voters, present, can_vote, named_before)
        if isinstance(found, str):
            problems.append(found)
        else:
            target.append(found)
    return _refused("; ".join(problems)) if problems else tuple(sorted(target))


def _replica_of(
    named: ReplicaKey,
    voters: VoterSet,
    present: Collection[ReplicaKey],
    can_vote: Collection[ReplicaKey],
    named_before: Collection[ReplicaKey],
) -> ReplicaKey | str:
    """The replica that `named` means, or why there is none."""
    voter = next((voter.key for voter in voters if named.names(voter.key.id, voter.key.directory_id)), None)
    observers = sorted(key for key in present if named.names(key.id, key.directory_id) and not voters.is_voter(key))
    before = next((key for key in named_before if named.names(key.id, key.directory_id)), None)
    if before is not None and not set(observers) - {before}:
        return before
    if voter is not None and not observers:
        return voter
    if not observers:
        return f"replica {named} is unknown to the leader: it is no voter, and has not fetched lately"
    rivals = [voter, *observers] if voter is not None and voter in present else observers
    if len(rivals) > 1:
        return f"replica {named} has {len(rivals)} incarnations that fetch: {', '.join(map(str, rivals))}"
    if observers[0] not in can_vote:
        return f"replica {observers[0]} has told the leader no listener that voters could use"
    return observers[0]


def _refused(reason: str) -> Refused:
    return Refused(Refusal.INVALID_REPLICA_ASSIGNMENT, f"target: {reason}")
