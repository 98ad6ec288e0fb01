"""Works out the effect of a voter change before it is requested: both voter sets, the failures they survive, who is up.

The plan objects if the leader would refuse the change, or if too few of the resulting voters are up to commit anything,
including the change itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kraft_trio.cli.terminal.layout import labelled
from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState, health_of
from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_changes import check_new_voter
from kraft_trio.protocol.voter_set import Voter, majority_of


@attrs.frozen
class PlannedVoter:
    """A voter before or after the change."""

    key: ReplicaKey
    health: ReplicaHealth


@attrs.frozen
class VoterPlan:
    """One change.  `objections` say why not to make it; `notes` say what else to know about it.  `already` says why
    there is nothing to change.
    """

    before: tuple[PlannedVoter, ...]
    after: tuple[PlannedVoter, ...]
    objections: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    may_pass: bool = False
    """Whether the only objection is that too few voters keep up at the moment."""
    already: str | None = None

    def lines(self) -> Iterator[str]:
        """The plan in the layout of the quorum's status."""
        for when, voters in (("Before", self.before), ("After", self.after)):
            yield labelled(f"Voters{when}", ", ".join(str(voter.key) for voter in voters) or "none")
            yield labelled(f"Majority{when}", majority_text(voters))
        everyone = dict.fromkeys((*self.before, *self.after))
        for status in (Health.LAGGING, Health.OFFLINE):
            those = [voter for voter in everyone if voter.health.status is status]
            told = "; ".join(f"{voter.key} {voter.health.reason}" for voter in those)
            yield labelled(status.value.capitalize(), told or "none")
        yield from (labelled("Note", note) for note in self.notes)


def plan_add(
    quorum: QuorumDescription,
    key: ReplicaKey,
    fetch_timeout_ms: int,
    listeners: Endpoints | None = None,
    cluster_id: str | None = None,
) -> VoterPlan:
    """Plan to make the replica a voter.  Its listeners and cluster are checked if given."""
    before = _planned(quorum, fetch_timeout_ms)
    known = next((state for state in quorum.observers if state.key == key), None)
    health = health_of(quorum, known or ReplicaState(key), fetch_timeout_ms)
    notes = _notes(quorum)
    present = quorum.voter_of_id(key.id)
    if present is not None and present.key == key:
        return VoterPlan(before, before, (), notes, already=f"{key} is a voter already")
    if present is not None:
        reason = (
            f"controller {key.id} is a voter with another directory id, {present.key}: remove that one first "
            "(`replace` does both)"
        )
        return VoterPlan(before, before, (reason,), notes)
    if known is None:
        health = ReplicaHealth(Health.OFFLINE, "is unknown to the leader: it has not fetched yet")
    if not health.is_up:
        notes = (*notes, f"the leader waits until {key} has caught up; until then nothing changes")
    after = tuple(sorted((*before, PlannedVoter(key, health)), key=lambda voter: voter.key))
    if static := static_voters(quorum):
        return VoterPlan(before, after, (static,), notes)
    if misfit := misfit_of(quorum, key, listeners, cluster_id):
        return VoterPlan(before, after, (misfit,), notes)
    # The leader appends the change only once the new voter has caught up, so it counts as up.
    return _checked(before, after, notes, up=_up(before) + 1)


def misfit_of(
    quorum: QuorumDescription, key: ReplicaKey, listeners: Endpoints | None, cluster_id: str | None
) -> str | None:
    """Why the leader would reject that replica for any set of voters."""
    if cluster_id is not None and quorum.cluster_id not in (None, cluster_id):
        return f"{key} is of cluster {cluster_id}, the quorum of cluster {quorum.cluster_id}"
    # A voter reaches the others by its first listener.
    of_leader = next((name for name, _ in quorum.endpoints.get(quorum.leader_id, ())), None)
    if listeners is None or of_leader is None:
        return None
    refused = check_new_voter(Voter(key, listeners), of_leader)
    return None if refused is None else refused.reason


def plan_remove(quorum: QuorumDescription, key: ReplicaKey, fetch_timeout_ms: int) -> VoterPlan:
    """Plan to remove exactly that replica from the voters."""
    before = _planned(quorum, fetch_timeout_ms)
    notes = _notes(quorum)
    if static := static_voters(quorum):
        return VoterPlan(before, before, (static,), notes)
    if all(voter.key != key for voter in before):
        names = ", ".join(str(voter.key) for voter in before)
        return VoterPlan(before, before, (), notes, already=f"{key} is not among the voters {names}")
    after = tuple(voter for voter in before if voter.key != key)
    if key.id == quorum.leader_id:
        notes = (*notes, f"{key} leads: once its removal has committed, it hands over and another leader is elected")
    if not after:
        reason = f"{key} is the only voter: a quorum without voters could never continue"
        return VoterPlan(before, after, (reason,), notes)
    return _checked(before, after, notes, up=_up(after))


def _checked(
    before: tuple[PlannedVoter, ...], after: tuple[PlannedVoter, ...], notes: tuple[str, ...], *, up: int
) -> VoterPlan:
    needed = majority_of(len(after))
    if up >= needed:
        return VoterPlan(before, after, (), notes)
    down = "; ".join(f"{voter.key} {voter.health.reason}" for voter in after if not voter.health.is_up)
    reason = (
        f"it would stop the quorum: of the {len(after)} resulting voters, {needed} must keep up but only {up} "
        f"{'does' if up == 1 else 'do'}: {down}"
    )
    return VoterPlan(before, after, (reason,), notes, may_pass=True)


def _planned(quorum: QuorumDescription, fetch_timeout_ms: int) -> tuple[PlannedVoter, ...]:
    return tuple(PlannedVoter(state.key, health_of(quorum, state, fetch_timeout_ms)) for state in quorum.voters)


def static_voters(quorum: QuorumDescription) -> str | None:
    """Why the voters cannot be changed: only kraft.version 1 and above record directory ids."""
    if any(state.key.directory_id == NO_DIRECTORY_ID for state in quorum.voters):
        return (
            "kraft.version is 0: the voters are those of controller.quorum.voters (`kraft features upgrade "
            "--feature kraft.version=1` makes them changeable)"
        )
    return None


def _notes(quorum: QuorumDescription) -> tuple[str, ...]:
    if not quorum.committed_voters:
        return ()
    return ("an earlier voter change has not committed yet: this one waits for it",)


def _up(voters: tuple[PlannedVoter, ...]) -> int:
    return sum(voter.health.is_up for voter in voters)


def majority_text(voters: tuple[PlannedVoter, ...]) -> str:
    if not voters:
        return "none"
    spare = len(voters) - majority_of(len(voters))
    up, now = _up(voters), _up(voters) - majority_of(len(voters))
    more = f"{now} more now" if now >= 0 else "none now: too few are up"
    return (
        f"{majority_of(len(voters))} of {len(voters)}, survives {spare} {'failure' if spare == 1 else 'failures'}; "
        f"{up} up, survives {more}"
    )
