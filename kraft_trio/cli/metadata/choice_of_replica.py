"""Which of several directories a command shows: the one whose log goes furthest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import attrs
import pyarrow as pa

from kraft_trio.errors import StorageError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding.batch_filter import NO_END, BatchFilter
from kraft_trio.spark.directories.pieces import plan_pieces
from kraft_trio.spark.directories.reading import ReadPlan, read_pieces
from kraft_trio.spark.directories.replicas import Replica, StoredFile, find_replicas

_SCHEMA = pa.schema({"epoch": pa.int32(), "last_offset": pa.int64()}.items())


def furthest(directories: Sequence[str]) -> Replica:
    """The replica whose log ends in the newest epoch, and there at the highest offset.

    If others cannot be read, one of them may be the furthest: the `error` of the result says so.

    Raises ConfigError without a replica, and for replicas of different clusters.  Raises StorageError if none can be
    read.
    """
    replicas = find_replicas(directories, allow_mixed_clusters=False)
    usable = [one for one in replicas if one.partition and one.error is None]
    problems = "; ".join(one.error for one in replicas if one.error is not None)
    if not usable:
        raise StorageError(problems)
    ends = [end_of(one) for one in usable] if len(usable) > 1 else [OffsetAndEpoch(0, 0)]
    chosen = max(range(len(usable)), key=lambda at: (ends[at].epoch, ends[at].offset))
    return attrs.evolve(usable[chosen], error=problems or None)


def end_of(replica: Replica) -> OffsetAndEpoch:
    """The end of the log (exclusive), by the headers of the last segment with batches or the name of a snapshot."""
    ends = [(id.epoch, id.offset) for id, _ in replica.snapshots]
    found = (end for segment in reversed(replica.segments) if (end := _end_in(replica, segment)) is not None)
    epoch, offset = max([*ends, *islice(found, 1)], default=(0, 0))
    return OffsetAndEpoch(offset, epoch)


def _end_in(replica: Replica, segment: tuple[int, StoredFile]) -> tuple[int, int] | None:
    """The epoch of the last batch that can be read, and the offset after it."""
    end = None
    plan = ReadPlan("batches", _SCHEMA, BatchFilter(segment[0]), is_fail_fast=False)
    alone = attrs.evolve(replica, segments=(segment,), error=None)
    for batch in read_pieces(plan_pieces([alone], "batches", plan.wanted, NO_END), plan):
        rows = batch.drop_null()
        if rows.num_rows:
            end = rows.column("epoch")[-1].as_py(), rows.column("last_offset")[-1].as_py() + 1
    return end
