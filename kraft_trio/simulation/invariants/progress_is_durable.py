from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.wire.apis.fetch import FETCH, FetchRequest

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Replica
    from kraft_trio.simulation.network.message import Message


class ProgressIsDurable(Invariant):
    """The offset of a Fetch is an acknowledgement: the leader counts everything below it as durable there (KIP-595
    "Fetch").  So a replica may send no offset above what its device would still hold after a crash, and the
    leader may believe of it no more than the most that it has sent in this epoch."""

    number = 20
    title = "a leader never counts more of a follower's log than the follower has synced"

    def message_sent(self, message: Message) -> None:
        if message.api_key != FETCH.key or not message.is_request:
            return
        replica = self.evidence.replica_at(message.source)
        request = message.value
        if replica is None or not isinstance(request, FetchRequest) or request.replica_id < 0:
            return
        held = max(replica.durable_end(), 0 if replica.node is None else replica.node.log.log_start_offset)
        for partition in request.partitions:
            if partition.fetch_offset > held:
                fact = f"{replica.key} fetches from offset {partition.fetch_offset}"
                self.violated(fact, f"its device holds its log up to offset {held}", (replica.key.id,))

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        self._check_progress(replica)

    def synced(self, replica: Replica, end_offset: int) -> None:
        self._check_progress(replica)

    def _check_progress(self, leader: Replica) -> None:
        if leader.node is None or leader.view is None or not leader.is_leader:
            return
        progress_table = leader.node.election.progress
        if progress_table is None:
            return
        epoch = leader.view.epoch
        for voter in self.evidence.voters.newest(leader):
            progress = progress_table.of_voter(voter)
            if progress is None or voter.id == leader.key.id:
                continue
            claim = self.evidence.highest_claim(voter.key, epoch)
            if claim is None or progress.end_offset > claim:
                fact = (
                    f"{leader.key} leads epoch {epoch} and believes that {voter.key} has synced {progress.end_offset}"
                )
                sent = "has sent no Fetch in that epoch" if claim is None else f"has not claimed more than {claim}"
                self.violated(fact, f"{voter.key} {sent}", (leader.key.id, voter.id))
