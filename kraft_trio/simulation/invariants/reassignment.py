"""The steps of a reassignment."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.voter_sets import text_of_keys
from kraft_trio.simulation.invariants.invariant import Invariant


class ReassignmentKeepsTolerance(Invariant):
    """An administrator who names a target gives up no safety on the way (KIP-642).  The leader knows which voters keep
    up.  The quorum survives as many failures as their number exceeds the majority.  After each step, it survives at
    least as many as the weaker of the set before it and the target, if all newcomers of the target keep up.  The id of
    a voter that keeps up can move to another disk only by its removal, which may cost one."""

    number = 24
    title = "no step of a reassignment tolerates less than the weaker of the old voters and the target"

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        beliefs = replica.beliefs
        if not by_leader or beliefs is None:
            return
        for entry in entries:
            if entry.voters is None:
                continue
            before = self.facts.voters.logged_before(replica, entry.base_offset)
            old, new = {voter.key for voter in before.voters}, {voter.key for voter in entry.voters}
            target = set(before.target)
            if not target or old == new:
                continue
            moves = {key.id for key in old - new} & {key.id for key in target - old}
            least = min(self._survives(replica, old), self._survives(replica, target, arrived=target - old))
            survives = self._survives(replica, new)
            if survives < max(0, least - len(moves)):
                up = text_of_keys(key for key in old | new if self._keeps_up(replica, key))
                fact = f"{text_of_keys(old)} leads to {text_of_keys(target)}, and {up} keep up with {replica.key}"
                other = f"at offset {entry.base_offset} come {text_of_keys(new)}, of which {survives} may fail"
                self.violated(fact, other, (replica.key.id,))

    def _survives(
        self, replica: Replica, voters: Collection[ReplicaKey], *, arrived: Collection[ReplicaKey] = ()
    ) -> int:
        up = sum(key in arrived or self._keeps_up(replica, key) for key in voters)
        return up - len(voters) // 2 - 1

    @staticmethod
    def _keeps_up(leader: Replica, key: ReplicaKey) -> bool:
        return key == leader.key or (leader.beliefs is not None and leader.beliefs.keeps_up(key))
