"""Takes the voters to the target in the log, step by step (KIP-642).

The target is part of the newest voter set, so each leader reads it in its own log and continues where the last one
stopped.  Each step is planned in its turn, from the log and from who fetches at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.membership.voter_change import VoterChange, VoterChangeSteps
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.logs import get_logger
from kraft_trio.messages import LeadershipLost
from kraft_trio.protocol.reassignment import Add, Done, HandOver, Remove, Step, Wait, next_step
from kraft_trio.protocol.reassignment_target import resolve_target
from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_changes import Refused, add_voter, check_new_voter, remove_voter
from kraft_trio.protocol.voter_set import Voter

log = get_logger(__name__)

LOOKS_PER_FETCH_TIMEOUT: Final = 20
"""How often the leader looks whether a replica has come, gone or caught up."""

LONGEST_HAND_OVER_WAIT: Final = 64
"""In fetch timeouts."""


@attrs.frozen
class _Objection:
    """Why a newcomer must not become a voter, and until when it is not asked again, on Trio's clock."""

    reason: str
    until: float


class Reassignment:
    """The reassignment in one epoch that this node leads; built for the epoch and never reused.

    `run` ends with the epoch nursery.  Between two steps it holds no turn, so a new target or a cancellation comes
    next.
    """

    def __init__(self, context: EpochContext, leader: LeaderReplication, steps: VoterChangeSteps) -> None:
        self._context = context
        self._key = context.key
        self._history = context.log.voters
        self._leader = leader
        self._steps = steps
        self._fetch_timeout_s = context.config.fetch_timeout_ms / 1000
        self._objections: dict[ReplicaKey, _Objection] = {}
        self._began_s = trio.current_time()
        self._all_seen_at_s = self._began_s + self._fetch_timeout_s
        """By then each replica had the time to catch up with the new leader; one that has not is late."""

    async def run(self) -> None:
        """Take steps as long as the log has a target."""
        while True:
            if not self._history.target:
                self._objections.clear()
                await self._context.log.voters_changed.park()
                continue
            if trio.current_time() < self._all_seen_at_s and not self._have_all_caught_up():
                with trio.move_on_at(self._all_seen_at_s):
                    await self._leader.progressed.park()
                continue
            step = self._next_step()
            self._tell(_status(step))
            match step:
                case Add(key):
                    await self._add(key)
                case Remove() | HandOver() | Done():
                    await self._take(step)
                case Wait():
                    await self._look_again_later()

    def _have_all_caught_up(self) -> bool:
        replicas = {*(voter.key for voter in self._steps.voters), *self._history.target}
        return all(self._steps.is_caught_up(key) for key in replicas - {self._key})

    async def _look_again_later(self) -> None:
        with trio.move_on_after(self._fetch_timeout_s / LOOKS_PER_FETCH_TIMEOUT):
            await self._context.log.voters_changed.park()

    # The target

    def target_of(self, named: Iterable[ReplicaKey] | None, may_change_count: bool) -> tuple[ReplicaKey, ...] | Refused:
        """The target that is named.  It is empty if nothing is left to do, as after None, which cancels."""
        voters, pending = self._steps.voters, self._history.target
        if named is None:
            if pending:
                return ()
            return Refused(Refusal.NO_REASSIGNMENT_IN_PROGRESS, "there is no reassignment to cancel")
        observers = self._leader.progress.observers(voters)
        present = [key for key in (*(voter.key for voter in voters), *observers) if not self._silence_of(key)]
        can_vote = [key for key in observers if self._listener_problem(key) is None]
        target = resolve_target(named, voters, present, can_vote, pending)
        if isinstance(target, Refused):
            return target
        if not may_change_count and len(target) != len(voters):
            return Refused(
                Refusal.INVALID_REPLICATION_FACTOR,
                f"target: {len(target)} voters, expected {len(voters)} as there are now",
            )
        return () if set(target) == {voter.key for voter in voters} else target

    # The steps

    def _next_step(self) -> Step:
        voters, target = {voter.key for voter in self._steps.voters}, self._history.target
        step = next_step(voters, target, self._healths((*voters, *target)), self._key)
        if isinstance(step, HandOver) and trio.current_time() < self._hand_over_at_s():
            return Wait(f"{self._key} has to hand over, but no new epoch has brought a step: it tries again later")
        return step

    def _hand_over_at_s(self) -> float:
        """When this leader may hand over.  It waits longer each time that a new epoch has brought no step.

        Otherwise, if the others reach nobody but this node, the quorum would do nothing but elect it again.
        """
        changed_at = self._history.voters_offset
        in_vain = sum(changed_at is not None and start > changed_at for _, start in self._context.log.epochs)
        if not in_vain:
            return self._began_s
        wait = min(1 << in_vain, LONGEST_HAND_OVER_WAIT)
        return self._began_s + self._fetch_timeout_s * wait

    async def _add(self, key: ReplicaKey) -> None:
        """Add the newcomer if its listener answers.  Otherwise, other steps come first for a while."""
        voter = Voter(key, self._listeners_of(key))
        change = VoterChange.unasked(f"reassign: add {key}")
        versions: VersionRange | Refused | None = None
        with trio.move_on_after(self._fetch_timeout_s):
            versions = await self._steps.ask_versions(change, voter)
        reason: str | None
        match versions:
            case None:
                reason = f"gave no answer: {change.waits_for}"
            case Refused(reason=reason):
                pass
            case VersionRange():
                reason = self._objection_to(versions)
                if reason is None:
                    await self._take(Add(key), attrs.evolve(voter, kraft_versions=versions))
        if reason is not None:
            self._objections[key] = _Objection(reason, trio.current_time() + self._fetch_timeout_s)

    async def _take(self, step: Step, newcomer: Voter | None = None) -> None:
        """Take the step in its turn, if it is still the next one."""
        change = VoterChange.unasked(f"reassign: {_status(step)}")
        async with self._steps.in_turn(change):
            if not self._history.target or self._next_step() != step:
                return
            voters = self._steps.voters
            match step:
                case Add():
                    assert newcomer is not None, "an added voter has answered"
                    following = add_voter(voters, newcomer)
                case Remove(key):
                    following = remove_voter(voters, key)
                case HandOver():
                    reason = "handing over to the voters that it was reassigned to"
                    await self._context.tell_election(LeadershipLost(self._context.stamp, reason))
                    await trio.sleep_forever()
                case _:
                    following = voters
            assert not isinstance(following, Refused), f"{step}: {following}"
            await self._steps.append(change, self._steps.record_of(following))
            await self._steps.until_committed(change)

    def _tell(self, status: str) -> None:
        if self._leader.reassignment_status != status:
            log.info("reassignment", status=status)
            self._leader.reassignment_status = status

    # What the leader knows of the replicas

    def _healths(self, keys: Iterable[ReplicaKey]) -> Mapping[ReplicaKey, ReplicaHealth]:
        return {key: self._health_of(key) for key in keys}

    def _health_of(self, key: ReplicaKey) -> ReplicaHealth:
        if key == self._key:
            return ReplicaHealth(Health.UP)
        silence = self._silence_of(key)
        if silence:
            return ReplicaHealth(Health.OFFLINE, silence)
        if not self._steps.is_caught_up(key):
            return ReplicaHealth(Health.LAGGING, "has not caught up")
        if not self._steps.voters.is_voter(key):
            problem = self._listener_problem(key) or self._known_objection(key)
            if problem is not None:
                return ReplicaHealth(Health.LAGGING, problem)
        return ReplicaHealth(Health.UP)

    def _silence_of(self, key: ReplicaKey) -> str | None:
        """Why a replica counts as offline, or None if it has fetched within the fetch timeout."""
        if key == self._key:
            return None
        progress = self._leader.progress.get(key)
        if progress is None:
            return f"has not fetched in epoch {self._context.epoch}"
        is_silent = trio.current_time() - progress.last_fetch_s > self._fetch_timeout_s
        return "does not fetch" if is_silent else None

    def _listeners_of(self, key: ReplicaKey) -> Endpoints:
        progress = self._leader.progress.get(key)
        return Endpoints() if progress is None else progress.listeners

    def _listener_problem(self, key: ReplicaKey) -> str | None:
        refused = check_new_voter(Voter(key, self._listeners_of(key)), self._context.config.controller_listener_name)
        return None if refused is None else f"cannot be reached: {refused.reason}"

    def _known_objection(self, key: ReplicaKey) -> str | None:
        objection = self._objections.get(key)
        return None if objection is None or objection.until < trio.current_time() else objection.reason

    def _objection_to(self, versions: VersionRange) -> str | None:
        current = self._history.kraft_version
        if versions.includes(current):
            return None
        return f"supports kraft.version {versions.minimum} to {versions.maximum}, it is {current}"


def _status(step: Step) -> str:
    match step:
        case Add(key):
            return f"adding {key}"
        case Remove(key):
            return f"removing {key}"
        case HandOver():
            return "handing over, so that the next leader removes this one"
        case Wait(reason):
            return reason
        case Done():
            return "ending"
