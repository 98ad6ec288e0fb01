"""Takes the steps of a reassignment for a leader that does not take them itself, such as Kafka's (KIP-642).

They are the steps that a leader of this implementation would take, one voter change after the other.  The quorum does
not know the target, so nobody continues if the command ends.  But the next run plans from the voters that it finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

import attrs
import trio

from kraft_trio.cli.quorum.controller_commands import tell_outcome, told
from kraft_trio.cli.quorum.reassignment_plan import health_by_key
from kraft_trio.cli.quorum.voter_change_run import DONE_BY_OTHERS, LOOK_AGAIN_S, ChangeRefused, ChangeRun, tell
from kraft_trio.client.admin import VoterChangeError
from kraft_trio.client.quorum_description import UNKNOWN, QuorumDescription
from kraft_trio.protocol.reassignment import Add, Done, HandOver, Remove, Step, Wait, next_step
from kraft_trio.protocol.types import Endpoints, ReplicaKey

TELL_AGAIN_S: Final = 2.0
"""How often the reason for a wait is printed at most, because it contains times and offsets."""

NextStep: TypeAlias = Callable[[QuorumDescription], Step]


def step_towards(target: Collection[ReplicaKey], fetch_timeout_ms: int) -> NextStep:
    """Return a function that plans the next step to the target as a leader of kraft-trio would."""

    def step(quorum: QuorumDescription) -> Step:
        voters = {state.key for state in quorum.voters}
        if voters == set(target):
            return Done()
        if quorum.leader is None:
            return Wait("the leader does not list itself")
        return next_step(voters, target, health_by_key(quorum, fetch_timeout_ms), quorum.leader.key)

    return step


@attrs.frozen
class ClientReassignment:
    """One run.  `listeners_of` tells where a newcomer listens, or None if that is unknown."""

    changes: ChangeRun
    listeners_of: Callable[[QuorumDescription, ReplicaKey], Endpoints | None]
    wait_s: float = math.inf
    """Limit for each wait."""

    async def run(self, next_step: NextStep) -> QuorumDescription:
        """Take the steps, and return the quorum once nothing is left to do.

        Raises ChangeRefused, and the errors of AdminClient.
        """
        deadline = trio.current_time() + self.wait_s
        told_at = -math.inf
        while True:
            quorum = await self._look()
            step = next_step(quorum)
            match step:
                case Done():
                    return quorum
                case Wait(reason):
                    now = trio.current_time()
                    if now >= told_at + TELL_AGAIN_S:
                        tell(reason)
                        told_at = now
                    if now > deadline:
                        raise ChangeRefused(f"refused: {reason} (run the command again to continue)")
                    await trio.sleep(LOOK_AGAIN_S)
                case _:
                    await self._take(step, quorum)
                    deadline = trio.current_time() + self.wait_s

    async def _look(self) -> QuorumDescription:
        """Describe the quorum.  Give each voter the time to fetch from a new leader, so that none seems dead."""
        deadline = trio.current_time() + self.changes.fetch_timeout_ms / 1000
        while True:
            quorum = await self.changes.settled()
            is_heard = all(state.last_fetch_timestamp_ms != UNKNOWN for state in quorum.voters)
            if is_heard or trio.current_time() > deadline:
                return quorum
            await trio.sleep(LOOK_AGAIN_S)

    async def _take(self, step: Add | Remove | HandOver, quorum: QuorumDescription) -> None:
        try:
            match step:
                case Add(key):
                    await self._add(key, quorum)
                case Remove(key):
                    await self._remove(key, quorum)
                case HandOver():
                    # A leader that removes itself hands over.
                    assert quorum.leader is not None, "it has been planned with"
                    await self._remove(quorum.leader.key, quorum)
        except VoterChangeError as error:
            if error.error not in DONE_BY_OTHERS:
                raise
            await trio.sleep(LOOK_AGAIN_S)

    async def _add(self, key: ReplicaKey, quorum: QuorumDescription) -> None:
        listeners = self.listeners_of(quorum, key)
        if listeners is None:
            raise ChangeRefused(f"refused: the leader does not tell where {key} listens: use add-controller there")
        already = await self.changes.add(key, listeners, quorum.cluster_id)
        tell_outcome(already, f"Added {told(key, listeners)}")

    async def _remove(self, key: ReplicaKey, quorum: QuorumDescription) -> None:
        already = await self.changes.remove(key, quorum.cluster_id)
        tell_outcome(already, f"Removed KRaft {told(key)}")
