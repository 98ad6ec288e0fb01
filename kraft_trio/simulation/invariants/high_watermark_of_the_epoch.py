from __future__ import annotations

from typing import TYPE_CHECKING

from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.wire.apis.fetch import FETCH, FetchResponse
from kraft_trio.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Replica
    from kraft_trio.simulation.network.message import Message


class HighWatermarkOfTheEpoch(Invariant):
    """A record of an earlier epoch on a majority is not committed by that: a replica without it may still be elected
    in between and overwrite it (Raft, figure 8).  A record of the leader's own epoch on a majority is, and all before
    it with it; until there is one, the leader knows no high watermark, whatever it knew as a follower, and nobody
    learns one from it (KIP-595 "High watermark").  What a snapshot covers is committed whoever leads (KIP-630)."""

    number = 10
    title = "a leader has no high watermark until a record of its own epoch is on a majority"

    def high_watermark_advanced(self, replica: Replica, old: int | None, new: int) -> None:
        if replica.view is None:
            return
        key, epoch = replica.key, replica.view.epoch
        if replica.is_leader:
            entry = replica.entry_at(new - 1)
            if entry is None or entry.epoch != epoch:
                fact = f"{key} leads epoch {epoch} and takes its log up to offset {new} for committed"
                last = "nothing is" if entry is None else f"a record of epoch {entry.epoch} is"
                self.violated(fact, f"{last} the last before it", (key.id,))
        elif self.evidence.committed.of_epoch(epoch) is None and not _is_end_of_snapshot(replica, new):
            fact = f"{key} learned in epoch {epoch} that the high watermark is {new}"
            self.violated(fact, "no record of that epoch is committed", (key.id,))

    def message_sent(self, message: Message) -> None:
        if message.api_key != FETCH.key or message.is_request:
            return
        replica = self.evidence.replica_at(message.source)
        if replica is None or replica.view is None:
            return
        if replica.is_leader and self.evidence.committed.of_epoch(replica.view.epoch) is not None:
            return  # It is known, so that there is nothing wrong in telling it: spare the decoding.
        response = message.value
        for partition in response.partitions if isinstance(response, FetchResponse) else ():
            epoch = partition.leader_epoch
            is_told = partition.error == ErrorCode.none and partition.high_watermark >= 0
            if is_told and self.evidence.committed.of_epoch(epoch) is None:
                fact = f"{replica.key} answers a Fetch in epoch {epoch} with high watermark {partition.high_watermark}"
                self.violated(fact, "no record of that epoch is committed", (replica.key.id,))


def _is_end_of_snapshot(replica: Replica, offset: int) -> bool:
    """Whether its log begins there, behind a snapshot that has taken the place of what was before."""
    last = replica.entry_ending_at(offset)
    return last is not None and not last.path
