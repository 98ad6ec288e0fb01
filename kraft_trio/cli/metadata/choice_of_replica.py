"""Which of several directories a command shows: the one whose log goes furthest."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kraft_trio.errors import StorageError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding.batch_filter import NO_END, BatchFilter
from kraft_trio.spark.directories.pieces import plan_pieces
from kraft_trio.spark.directories.reading import ReadPlan, read_pieces
from kraft_trio.spark.directories.replicas import Replica, find_replicas

_SCHEMA = pa.schema({"epoch": pa.int32(), "last_offset": pa.int64()}.items())


def furthest(directories: Sequence[str]) -> Replica:
    """The replica whose log ends in the newest epoch, and there at the highest offset.

    Raises ConfigError if there is none, or if they belong to different clusters; StorageError if none can be read.
    """
    replicas = find_replicas(directories, allow_mixed_clusters=False)
    usable = [one for one in replicas if one.partition and one.error is None]
    if not usable:
        raise StorageError("; ".join(one.error for one in replicas if one.error is not None))
    return usable[0] if len(usable) == 1 else max(usable, key=lambda one: (end_of(one).epoch, end_of(one).offset))


def end_of(replica: Replica) -> OffsetAndEpoch:
    """The end of the log (exclusive), by the headers of the last segment or the name of the newest snapshot."""
    ends = [(id.epoch, id.offset) for id, _ in replica.snapshots]
    if replica.segments:
        wanted = BatchFilter(replica.segments[-1][0])
        plan = ReadPlan("batches", _SCHEMA, wanted, is_fail_fast=False)
        for batch in read_pieces(plan_pieces([replica], "batches", wanted, NO_END), plan):
            rows = batch.drop_null()
            if rows.num_rows:
                ends.append((rows.column("epoch")[-1].as_py(), rows.column("last_offset")[-1].as_py() + 1))
    epoch, offset = max(ends, default=(0, 0))
    return OffsetAndEpoch(offset, epoch)
