"""Foretells the steps of a reassignment from what the leader describes, with what each voter set survives (KIP-642)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from kraft_trio.cli.quorum.voter_plan import PlannedVoter, majority_text, misfit_of, static_voters
from kraft_trio.cli.terminal.layout import labelled
from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState, health_of
from kraft_trio.protocol.reassignment import UNKNOWN, Add, Done, HandOver, Remove, Wait, next_step
from kraft_trio.protocol.reassignment_target import resolve_target
from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.protocol.voter_set import Voter, VoterSet

UP = ReplicaHealth(Health.UP)


@attrs.frozen
class PlannedStep:
    """A step in words, and the voters after it."""

    what: str
    voters: tuple[PlannedVoter, ...]


@attrs.frozen
class ReassignmentPlan:
    """The steps, if nothing else changes.  The leader plans each step when it takes it."""

    before: tuple[PlannedVoter, ...]
    target: tuple[ReplicaKey, ...]
    steps: tuple[PlannedStep, ...]
    obstacle: str | None = None
    """Why the steps do not lead to the target."""

    def lines(self) -> Iterator[str]:
        """The plan in the layout of the quorum's status."""
        yield labelled("Voters", names_of(voter.key for voter in self.before))
        yield labelled("Majority", majority_text(self.before))
        yield labelled("TargetVoters", names_of(self.target))
        for number, step in enumerate(self.steps, 1):
            yield labelled(f"Step{number}", f"{step.what}: {majority_text(step.voters)}")
        if self.obstacle is not None:
            yield labelled("Then", self.obstacle)


def plan_reassignment(
    quorum: QuorumDescription, ids: Iterable[int], fetch_timeout_ms: int
) -> ReassignmentPlan | Refused:
    """The plan, or why the leader would refuse the target."""
    if static := static_voters(quorum):
        return Refused(Refusal.UNSUPPORTED_VERSION, static)
    healths = health_by_key(quorum, fetch_timeout_ms)
    voters = VoterSet(
        tuple(Voter(state.key, quorum.endpoints.get(state.key.id, Endpoints())) for state in quorum.voters)
    )
    present = [key for key, health in healths.items() if health.status is not Health.OFFLINE]
    can_vote = [key for key in present if _has_listeners(quorum, key)]
    pending = [state.key for state in quorum.target_voters]
    target = resolve_target(map(ReplicaKey, ids), voters, present, can_vote, pending)
    if isinstance(target, Refused):
        return target
    return _planned(quorum, target, healths)


def _has_listeners(quorum: QuorumDescription, key: ReplicaKey) -> bool:
    listeners = quorum.endpoints_of(key)
    return listeners is not None and misfit_of(quorum, key, listeners, None) is None


def health_by_key(quorum: QuorumDescription, fetch_timeout_ms: int) -> dict[ReplicaKey, ReplicaHealth]:
    return {state.key: health_of(quorum, state, fetch_timeout_ms) for state in _replicas(quorum)}


def names_of(keys: Iterable[ReplicaKey]) -> str:
    return ", ".join(map(str, sorted(keys)))


def voters_of(keys: Iterable[ReplicaKey], healths: dict[ReplicaKey, ReplicaHealth]) -> tuple[PlannedVoter, ...]:
    return tuple(PlannedVoter(key, healths.get(key, UNKNOWN)) for key in sorted(keys))


def _replicas(quorum: QuorumDescription) -> tuple[ReplicaState, ...]:
    return (*quorum.voters, *quorum.observers)


def _planned(
    quorum: QuorumDescription, target: tuple[ReplicaKey, ...], healths: dict[ReplicaKey, ReplicaHealth]
) -> ReassignmentPlan:
    voters = {state.key for state in quorum.voters}
    before = voters_of(voters, healths)
    leader = quorum.leader
    if leader is None:
        return ReassignmentPlan(before, target, (), "the leader does not list itself")
    leading = leader.key
    healths = dict(healths)
    steps: list[PlannedStep] = []
    while True:
        step = next_step(voters, target, healths, leading)
        match step:
            case Done():
                return ReassignmentPlan(before, target, tuple(steps))
            case Wait(reason):
                late = [key for key in set(target) - voters if not healths.get(key, UNKNOWN).is_up]
                if not late:
                    return ReassignmentPlan(before, target, tuple(steps), reason)
                healths |= dict.fromkeys(late, UP)
                what = reason
            case HandOver():
                heirs = [key for key in voters - {leading} if healths.get(key, UNKNOWN).is_up]
                if not heirs:
                    return ReassignmentPlan(before, target, tuple(steps), f"{leading} has nobody to hand over to")
                leading = min(heirs, key=lambda key: (key not in target, key))
                what = "the leader hands over"
            case Add(key):
                voters.add(key)
                what = f"add {key}"
            case Remove(key):
                voters.remove(key)
                what = f"remove {key}"
        steps.append(PlannedStep(what, voters_of(voters, healths)))
