"""Old copies of voters' directories."""

from __future__ import annotations

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.facts.voter_sets import is_member
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.apis.fetch import FETCH, FetchRequest


class OldCopiesAreTold(Invariant):
    """A voter on an old copy of its directory lacks records that it acknowledged, and may vote twice: no protocol can
    prevent the loss of committed records then, so somebody must hear of it.  The leader to which the voter acknowledged
    them is the only one that can know.  A lower Fetch alone proves nothing, because it may have come late.  Another one
    on its connection shows that the voter heard the answer, and really is there.  The leader must say so before it
    answers that one, and must never say so of another voter."""

    number = 28
    title = "a leader says of a voter that it runs on an old copy of its directory, if and only if it does"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._acknowledged: dict[tuple[ReplicaKey, ReplicaKey, int], int] = {}
        """By leader, replica and epoch, the highest valid offset of a Fetch that was answered."""
        self._fallen: set[tuple[ReplicaKey, ReplicaKey, int, int]] = set()
        """By leader, replica, epoch and connection, where an old copy has fetched from a lower offset."""

    @classmethod
    def looks_at(cls, api_key: int, *, is_request: bool) -> bool:
        return api_key == FETCH.key and not is_request

    def message_sent(self, message: Message) -> None:
        leader, replica = self.facts.replica_at(message.source), self.facts.replica_at(message.target)
        if leader is None or replica is None or message.request is None or leader.beliefs is None:
            return
        for key in leader.beliefs.old_copies:
            if key not in self.facts.old_copies:
                fact = f"{leader.key} says that {key} runs on an old copy of its directory"
                self.violated(fact, "no old copy of that was ever started", (leader.key.id, key.id))
        request = message.request.value
        if isinstance(request, FetchRequest) and request.replica_id == replica.key.id:
            self._fetched(leader, replica, request, message.connection)

    def _fetched(self, leader: Replica, replica: Replica, request: FetchRequest, connection: int) -> None:
        assert leader.beliefs is not None
        partition, voters = request.partitions[0], self.facts.voters.newest(leader)
        epoch, offset = partition.current_leader_epoch, partition.fetch_offset
        if not self._is_valid(leader, replica, offset, epoch) or not is_member(voters, replica.key):
            return
        of_epoch = leader.key, replica.key, epoch
        if (*of_epoch, connection) in self._fallen and replica.key not in leader.beliefs.old_copies:
            fact = f"{replica.key} came back with less than it had acknowledged, {self._acknowledged[of_epoch]}"
            other = f"{leader.key} answers its second Fetch on one connection, and has not said so"
            self.violated(fact, other, (leader.key.id, replica.key.id))
        if offset < self._acknowledged.get(of_epoch, 0) and replica.key in self.facts.old_copies:
            self._fallen.add((*of_epoch, connection))
        self._acknowledged[of_epoch] = max(offset, self._acknowledged.get(of_epoch, 0))

    @staticmethod
    def _is_valid(leader: Replica, replica: Replica, offset: int, epoch: int) -> bool:
        """Whether both logs are the same up to that offset, so that the leader takes it for an acknowledgement."""
        if not leader.is_leader or leader.view is None or leader.view.epoch != epoch or not offset:
            return False
        held, theirs = leader.entry_ending_at(offset), replica.entry_ending_at(offset)
        return held is not None and theirs is not None and held.chain == theirs.chain
