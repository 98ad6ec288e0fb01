"""The metadata of a live quorum as it was before an offset: the snapshot where its log begins, and the log up to it."""

from __future__ import annotations

import attrs
import trio

from kraft_trio.errors import ProtocolError
from kraft_trio.metadata.history import History, Origin
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.live.fetching import LogRange, committed_batches
from kraft_trio.spark.live.options import LiveOptions
from kraft_trio.spark.live.quorum import DataLossError, QuorumLeader, ask_leader, check_cluster
from kraft_trio.storage.batches.batch import decode_records, iter_headers
from kraft_trio.storage.batches.control_records import LeaderChange, decode_control_record


@attrs.define
class Before:
    """What the records before an offset say."""

    history: History = attrs.field(factory=History)
    leaders: dict[int, int] = attrs.field(factory=dict)
    """Leaders by epoch."""
    epoch: int = 0
    """Of the last record."""
    timestamp_us: int | None = None

    def copy(self) -> Before:
        return Before(self.history.copy(), dict(self.leaders), self.epoch, self.timestamp_us)

    def note_leader(self, epoch: int, key: bytes | None, value: bytes | None) -> None:
        """Take the leader of an epoch from a control record."""
        try:
            record = decode_control_record(key, value)
        except ProtocolError:
            return
        if isinstance(record, LeaderChange):
            self.leaders[epoch] = record.leader_id


def image_before(options: LiveOptions, wanted: LogRange) -> Before:
    """Read it from the quorum.

    Raises DataLossError if the log begins behind the range by now, NetworkError if it cannot be read within the
    address's `timeout_ms`, OtherClusterError and RefusedError.
    """

    async def question(leader: QuorumLeader) -> tuple[OffsetAndEpoch | None, list[bytes]]:
        check_cluster(wanted.cluster_id, leader)
        begins = await leader.log_start_offset()
        if begins > wanted.begin:
            raise DataLossError(
                f"cluster {wanted.cluster_id}: what was before offset {wanted.begin} is gone, "
                f"the log begins at {begins}"
            )
        base = await leader.snapshot_at_or_below(wanted.begin)
        return base, [] if base is None else await leader.snapshot_values(base)

    base, values = trio.run(ask_leader, options.address, question)
    before = Before()
    for value in values:
        for _ in before.history.add(Origin(-1, 0 if base is None else base.epoch, None), value):
            pass
    if base is not None:
        before.epoch = base.epoch
    start = 0 if base is None else base.offset
    for records in committed_batches(
        options.address, attrs.evolve(wanted, begin=start, end=wanted.begin), fail_on_data_loss=True
    ):
        for position, header in iter_headers(records):
            for record in decode_records(records, position, header):
                if not start <= record.offset < wanted.begin:
                    continue
                before.epoch, before.timestamp_us = header.leader_epoch, record.timestamp_ms * 1000
                if header.is_control:
                    before.note_leader(header.leader_epoch, record.key, record.value)
                else:
                    origin = Origin(record.offset, header.leader_epoch, record.timestamp_ms * 1000)
                    for _ in before.history.add(origin, record.value):
                        pass
    return before
