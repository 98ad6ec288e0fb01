"""Replays a replica's metadata up to a moment: from the newest snapshot that suffices, and then the log."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute

from kraft_trio.metadata.history import History, Made, Origin, Problem
from kraft_trio.metadata.replay import RECORDS_OF
from kraft_trio.protocol.metadata_transactions import MARKERS
from kraft_trio.spark.directories.as_of import (
    NEEDED,
    AsOf,
    Base,
    base_of,
    log_records,
    snapshot_records,
    what_is_missing,
)
from kraft_trio.spark.directories.replicas import Replica
from kraft_trio.spark.schemas import ERROR
from kraft_trio.wire.metadata_frame import frame_start
from kraft_trio.wire.metadata_schemas import SCHEMAS

_SCHEMA: Final = pa.schema(
    {**NEEDED, "epoch": pa.int32(), "control": pa.bool_(), "key": pa.binary(), "value": pa.binary()}.items()
)


@attrs.frozen
class Unreadable:
    """A part of the directory that could not be read, or that is missing."""

    reason: str
    offset: int | None = None
    """Where the log continues to be unknown; None for all of it."""


@attrs.define
class Replaying:
    """One pass over a replica.  Afterwards, the history is as of `as_of`."""

    replica: Replica
    as_of: AsOf = AsOf()
    begin: int | None = None
    """Begin with a snapshot at or below this offset instead of one at the moment, so that the changes from there on are
    seen.  If the log begins later, with the oldest snapshot from which it continues."""
    entities: Collection[str] | None = None
    """Replay what these kinds of things depend on, and nothing else: the image has no others then."""
    history: History = attrs.field(factory=History)
    end: int = 0
    """After the last record that was found."""
    base: Base | None = None
    """The snapshot that it began with."""
    is_lost: bool = False
    """Whether what was before the log is missing, so that nothing can be replayed."""

    def load(self) -> Iterator[Problem | Unreadable]:
        """Apply the snapshot that the history begins with, and say what is wrong.  Call it once, before `follow`."""
        self.base = base_of(self.replica, self._place())
        covered = 0 if self.base is None else self.base.id.offset
        if self.replica.segments and covered < self.replica.segments[0][0]:
            # What is there changes things that nobody knows.
            gap = what_is_missing(self.replica, self.as_of, self.base, covered)
            if gap is not None:
                self.is_lost = True
                yield Unreadable(gap)
                return
        if self.base is not None:
            for batch in snapshot_records(self.replica, self.base, _SCHEMA):
                for step in self._apply(batch):
                    if not isinstance(step, Made):
                        yield step
            self.end = self.base.id.offset

    def follow(self) -> Iterator[Made | Problem | Unreadable]:
        """What each record of the log changes, in order, and what is wrong."""
        if self.is_lost:
            return
        for batch in log_records(self.replica, self.end, self.as_of, _SCHEMA):
            yield from self._apply(batch)
        missing = what_is_missing(self.replica, self.as_of, self.base, self.end) if self.replica.partition else None
        if missing is not None:
            yield Unreadable(missing, self.end)

    def run(self) -> list[Problem | Unreadable]:
        """Replay everything, and return what is wrong."""
        return [*self.load(), *(step for step in self.follow() if not isinstance(step, Made))]

    def _place(self) -> AsOf:
        """The moment at or below which the snapshot is to be."""
        if self.begin is None:
            return self.as_of
        first = self.replica.segments[0][0] if self.replica.segments else 0
        if self.begin >= first or not self.replica.snapshots:
            return AsOf(min(self.begin, self.as_of.offset))
        later = [id.offset for id, _ in self.replica.snapshots if id.offset >= first]
        return AsOf(min(min(later, default=self.begin), self.as_of.offset))

    def _apply(self, batch: pa.RecordBatch) -> Iterator[Made | Problem | Unreadable]:
        if self.entities is not None:
            yield from self._apply_rows(_without(batch, _starts_of_others(self.entities)))
            last = pyarrow.compute.max(batch.column("offset")).as_py()
            self.end = self.end if last is None else last + 1
        else:
            yield from self._apply_rows(batch)

    def _apply_rows(self, batch: pa.RecordBatch) -> Iterator[Made | Problem | Unreadable]:
        columns = [batch.column(name) for name in ("offset", "epoch", "control", "key", "value", ERROR.name)]
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        rows = zip(*(column.to_pylist() for column in columns), times, strict=True)
        for offset, epoch, is_control, key, value, error, time in rows:
            if error is not None:
                yield Unreadable(error, self.end or None)
                continue
            if offset is not None:
                self.end = offset + 1
            origin = Origin(offset, epoch, None if offset is None else time)
            if is_control:
                self.history.add_control(origin, key, value)
            else:
                yield from self.history.add(origin, value)


def _starts_of_others(entities: Collection[str]) -> pa.Array:
    """How the values of the records begin on which none of these kinds of things depends."""
    needed = {record for entity in entities for record in RECORDS_OF.get(entity, ())}
    others = (key for key, schema in SCHEMAS.items() if schema.record not in needed and key not in MARKERS)
    return pa.array([frame_start(key) for key in others], pa.binary())


def _without(batch: pa.RecordBatch, starts: pa.Array) -> pa.RecordBatch:
    """The batch without the records whose values begin so."""
    compute = pyarrow.compute
    begins = compute.is_in(compute.binary_slice(batch.column("value"), 0, 2), value_set=starts)
    return batch.filter(compute.or_(compute.invert(begins), compute.fill_null(batch.column("control"), False)))
