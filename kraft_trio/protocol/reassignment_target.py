"""Resolves the ids of a target to replicas, as the leader knows them (KIP-642).

An administrator names ids alone.  The id of a voter stands for that voter, unless it is silent and another replica with
its id fetches: then its disk has been replaced.  Any other id stands for the replica with that id that fetches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.protocol.voter_set import VoterSet

MAX_TARGET_VOTERS = 100


def resolve_target(
    ids: Iterable[int],
    voters: VoterSet,
    present: Collection[ReplicaKey],
    can_vote: Collection[ReplicaKey],
    pending: Collection[ReplicaKey] = (),
) -> tuple[ReplicaKey, ...] | Refused:
    """The target voters, sorted.  INVALID_REPLICA_ASSIGNMENT, naming all problems, if an id is of no use.

    `present` are the voters and observers that fetch; `can_vote` are the observers that have told a valid listener.
    `pending` is the target of the reassignment under way.  Its ids name the same replicas again.
    """
    named = list(ids)
    if not named:
        return _refused("no voters: a quorum without voters could never continue")
    if len(named) > MAX_TARGET_VOTERS:
        return _refused(f"{len(named)} voters: expected at most {MAX_TARGET_VOTERS}")
    if len(set(named)) < len(named):
        return _refused(f"voters {', '.join(map(str, named))}: expected each id once")
    if sorted(named) == sorted(key.id for key in pending):
        return tuple(sorted(pending))
    problems, target = [], []
    for id in named:
        found = _replica_of(id, voters, present, can_vote)
        if isinstance(found, str):
            problems.append(found)
        else:
            target.append(found)
    return _refused("; ".join(problems)) if problems else tuple(sorted(target))


def _replica_of(
    id: int, voters: VoterSet, present: Collection[ReplicaKey], can_vote: Collection[ReplicaKey]
) -> ReplicaKey | str:
    """The replica that the id stands for, or why there is no such replica."""
    voter = voters.get(id)
    observers = sorted(key for key in present if key.id == id and not voters.is_voter(key))
    if voter is not None and not observers:
        return voter.key
    if not observers:
        return f"replica {id} is unknown to the leader: it is no voter, and has not fetched lately"
    rivals = [voter.key, *observers] if voter is not None and voter.key in present else observers
    if len(rivals) > 1:
        return f"replica {id} has {len(rivals)} incarnations that fetch: {', '.join(map(str, rivals))}"
    if observers[0] not in can_vote:
        return f"replica {observers[0]} has told the leader no listener that voters could use"
    return observers[0]


def _refused(reason: str) -> Refused:
    return Refused("INVALID_REPLICA_ASSIGNMENT", f"target: {reason}")
