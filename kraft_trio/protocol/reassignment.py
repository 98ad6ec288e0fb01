"""Plans the next step from the voters in force to a target set, one replica at a time (KIP-642).

The planner knows nothing of earlier steps, so any leader may take the next one.  It never plans more steps than the
two sets have differences.  What counts is how many more failures the quorum survives now: the voters that are up, less
the majority.  No step makes that less than both sets survive by themselves, with one exception: the id of a voter that
is up can move to another disk only through a set without that id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

import attrs

from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import majority_of


@attrs.frozen
class Add:
    """Make the replica, which is up, a voter."""

    key: ReplicaKey


@attrs.frozen
class Remove:
    """Remove the voter, which is not the leader."""

    key: ReplicaKey


@attrs.frozen
class HandOver:
    """Resign, so that the next leader can remove this one."""


@attrs.frozen
class Wait:
    """Nothing can be done now."""

    reason: str


@attrs.frozen
class Done:
    """The voters in force are the target."""


Step: TypeAlias = Add | Remove | HandOver | Wait | Done

UNKNOWN: Final = ReplicaHealth(Health.OFFLINE, "is unknown to the leader")


def next_step(
    voters: Collection[ReplicaKey],
    target: Collection[ReplicaKey],
    health: Mapping[ReplicaKey, ReplicaHealth],
    leader: ReplicaKey,
) -> Step:
    """The next step of the leader, which is up.  A replica without an entry in `health` is offline."""
    if set(voters) == set(target):
        return Done()
    return _Planner(frozenset(voters), frozenset(target), health, leader).step()


@attrs.frozen
class _Planner:
    voters: frozenset[ReplicaKey]
    target: frozenset[ReplicaKey]
    health: Mapping[ReplicaKey, ReplicaHealth]
    leader: ReplicaKey

    def step(self) -> Step:
        survives_now, survives_then = self._tolerance(self.voters), self._tolerance(self.target, self._incoming)
        at_least, enough = max(0, min(survives_now, survives_then)), max(survives_now, survives_then)
        possible = self._possible_steps()
        harmless = [step for step in possible if self._tolerance(self._after(step)) >= at_least]
        if not harmless and self._moves_ids_only:
            harmless = [
                step
                for step in possible
                if self._successor(step.key) is not None and self._tolerance(self._after(step)) >= 0
            ]
        if not harmless:
            return Wait(self._obstacle(at_least))

        def rank(step: Add | Remove) -> tuple[bool, int, int, bool, int, ReplicaKey]:
            after = self._after(step)
            return (
                step.key == self.leader and self._successor(self.leader) is None,
                -min(self._tolerance(after), enough),
                abs(len(after) - len(self.target)),
                step.key == self.leader and not self._moves_ids_only,
                self._turn(step),
                step.key,
            )

        best = min(harmless, key=rank)
        return HandOver() if best.key == self.leader else best

    @property
    def _moves_ids_only(self) -> bool:
        """Whether each newcomer that is left has the id of a voter.

        Then no newcomer makes up for a voter that only leaves, so ids move first, even the leader's: from an even
        number of voters, that costs nothing.
        """
        return not any(self._is_id_free(key) for key in self._incoming)

    @property
    def _incoming(self) -> frozenset[ReplicaKey]:
        return self.target - self.voters

    @property
    def _outgoing(self) -> frozenset[ReplicaKey]:
        return self.voters - self.target

    def _possible_steps(self) -> list[Add | Remove]:
        """All steps towards the target that can be taken now, whatever they cost."""
        steps: list[Add | Remove] = [Add(key) for key in self._incoming if self._is_up(key) and self._is_id_free(key)]
        now = self._tolerance(self.voters)
        for step in map(Remove, self._outgoing):
            successor = self._successor(step.key)
            if successor is None or self._is_up(successor) or self._tolerance(self._after(step)) > now:
                steps.append(step)
        return [step for step in steps if not self._is_dead_end(self._after(step))]

    def _is_dead_end(self, voters: frozenset[ReplicaKey]) -> bool:
        """Whether a single voter is left whose id must move to another disk, and no other newcomer is up."""
        if len(voters) > 1 or any(self._successor(voter) is None for voter in voters):
            return False
        return not any(self._is_up(key) and all(voter.id != key.id for voter in voters) for key in self._incoming)

    def _after(self, step: Add | Remove) -> frozenset[ReplicaKey]:
        return self.voters | {step.key} if isinstance(step, Add) else self.voters - {step.key}

    def _tolerance(self, voters: frozenset[ReplicaKey], assumed_up: frozenset[ReplicaKey] = frozenset()) -> int:
        """How many more failures that set survives."""
        up = sum(key in assumed_up or self._is_up(key) for key in voters)
        return up - majority_of(len(voters))

    def _is_up(self, key: ReplicaKey) -> bool:
        return key == self.leader or self._health(key).is_up

    def _health(self, key: ReplicaKey) -> ReplicaHealth:
        return self.health.get(key, UNKNOWN)

    def _is_id_free(self, key: ReplicaKey) -> bool:
        return all(voter.id != key.id for voter in self.voters)

    def _successor(self, voter: ReplicaKey) -> ReplicaKey | None:
        """The newcomer with the same id, if that id moves to another disk."""
        return next((key for key in self._incoming if key.id == voter.id and key != voter), None)

    def _turn(self, step: Add | Remove) -> int:
        """The order of steps that are equally safe."""
        if isinstance(step, Add):
            return 2
        health = Health.UP if step.key == self.leader else self._health(step.key).status
        if health is Health.OFFLINE:
            return 0
        if self._successor(step.key) is not None:
            return 2 if step.key == self.leader else 1
        return 3 if health is Health.LAGGING else 4

    def _obstacle(self, at_least: int) -> str:
        """What has to change before there is a step."""
        late = [f"{key}, which {self._health(key).reason}" for key in sorted(self._incoming) if not self._is_up(key)]
        if late:
            return f"waiting for {'; '.join(late)}"
        if len(self.voters) == 1:
            return f"{self.leader} is the only voter: nobody else could remove it so that its id moves to another disk"
        up, down = sum(map(self._is_up, self.voters)), sorted(key for key in self.voters if not self._is_up(key))
        names = "; ".join(f"{key}, which {self._health(key).reason}" for key in down)
        return (
            f"only {up} of {len(self.voters)} voters are up, too few to remove one and survive {at_least} more "
            f"{'failure' if at_least == 1 else 'failures'}" + (f": {names}" if names else "")
        )
