"""The metadata of a live quorum as it was before an offset: the snapshot where its log begins, and the log up to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import attrs
import trio

from kraft_trio.metadata.history import History, Made, Origin, Problem
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding.rows import microseconds
from kraft_trio.spark.live.fetching import LogRange, committed_batches
from kraft_trio.spark.live.options import LiveOptions
from kraft_trio.spark.live.quorum import DataLossError, QuorumLeader, ask_leader, check_cluster
from kraft_trio.storage.batches.batch import BatchHeader, decode_records, iter_headers


def image_before(options: LiveOptions, wanted: LogRange) -> History:
    """Read it from the quorum.  What is wrong before the range is told by the ranges before it.

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
    history = History()
    start = OffsetAndEpoch(0, 0) if base is None else base
    for value in values:
        history.add(Origin(None, start.epoch, None), value)
    before = attrs.evolve(wanted, begin=start.offset, end=wanted.begin)
    for records in committed_batches(options.address, before, fail_on_data_loss=True):
        for position, header in iter_headers(records):
            deque(apply_batch(history, records, position, header, before), maxlen=0)
            before = attrs.evolve(before, begin=header.next_offset)
    return history


def apply_batch(
    history: History, records: bytes, position: int, header: BatchHeader, wanted: LogRange
) -> Iterator[Made | Problem]:
    """Apply the records of one batch that are in the range, and say what each one changes."""
    for record in decode_records(records, position, header):
        if wanted.begin <= record.offset < wanted.end:
            time_us, no_time = microseconds(record.timestamp_ms)
            origin = Origin(record.offset, header.leader_epoch, time_us)
            if no_time is not None:
                yield Problem(origin, no_time)
            elif header.is_control:
                history.add_control(origin, record.key, record.value)
            else:
                yield from history.add(origin, record.value)
