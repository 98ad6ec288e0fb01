"""`content=changes` of a live quorum: what was before a range is replayed once, and kept for the range behind it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

import attrs
import pyarrow as pa

from kraft_trio.errors import ProtocolError
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.metadata.history import Made, Origin, Problem
from kraft_trio.metadata.image import Change
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.live.columns import RETRIES
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.image_before import Before, image_before
from kraft_trio.spark.live.options import LiveOptions
from kraft_trio.spark.metadata.changes import ChangeRow, change_batch, change_row
from kraft_trio.spark.options import EARLIEST
from kraft_trio.storage.batches.batch import decode_records, iter_headers

ROWS_AT_ONCE: Final = 10_000
_KEPT: Final = 4
_kept: OrderedDict[tuple[str | None, int], Before] = OrderedDict()
"""What was before offsets of clusters, most recently used last.  Spark uses a worker's process again."""


@attrs.define
class ChangesOfTask:
    """Makes the rows of one range; without a range, it is what tasks begin with."""

    schema: pa.Schema
    spelled: tuple[str, ...]
    entities: frozenset[str]
    is_failfast: bool
    _wanted: LogRange | None = None
    _before: Before | None = None
    _is_from_start: bool = False

    def of_task(self, options: LiveOptions, wanted: LogRange) -> ChangesOfTask:
        """Replay what was before the range.  Raises like `image_before`."""
        place = wanted.cluster_id, wanted.begin
        found = _kept.get(place)
        if found is None:
            found = image_before(options, wanted)
            _keep(place, found)
        # A task may be repeated, so what is kept stays as it is.
        is_from_start = wanted.is_beginning and options.starting == EARLIEST
        return attrs.evolve(self, wanted=wanted, before=found.copy(), is_from_start=is_from_start)

    def before(self) -> Iterator[pa.RecordBatch]:
        """What exists where the log begins, if that is where the query begins."""
        if self._before is None or not self._is_from_start:
            return
        origin = Origin(-1, self._before.epoch, self._before.timestamp_us)
        made = Made(origin, "", ())
        image = self._before.history.image
        some: list[ChangeRow] = []
        for entity in ENTITIES.values():
            for record in image.things(entity.name) if self._is_wanted(entity.name) else ():
                topic = image.topic_name(record.topic_id) if entity.has_topic else None
                some.append(change_row(made, Change(entity.name, None, record, topic), None))
                if len(some) == ROWS_AT_ONCE:
                    yield self._batch(some)
                    some = []
        if some:
            yield self._batch(some)

    def rows_of(self, records: bytes, wanted: LogRange) -> Iterator[pa.RecordBatch]:
        """Raises ProtocolError for damaged batches and, in FAILFAST mode, for records that cannot be applied."""
        assert self._before is not None
        before, some = self._before, list[ChangeRow]()
        for position, header in iter_headers(records):
            for record in decode_records(records, position, header):
                if not wanted.begin <= record.offset < wanted.end:
                    continue
                if header.is_control:
                    before.note_leader(header.leader_epoch, record.key, record.value)
                    continue
                origin = Origin(record.offset, header.leader_epoch, record.timestamp_ms * 1000)
                for step in before.history.add(origin, record.value):
                    if isinstance(step, Problem):
                        if some:
                            yield self._batch(some)
                            some = []
                        yield self._problem(step)
                        continue
                    leader = before.leaders.get(step.origin.epoch)
                    some += [change_row(step, one, leader) for one in step.changes if self._is_wanted(one.entity)]
            if len(some) >= ROWS_AT_ONCE:
                yield self._batch(some)
                some = []
        if some:
            yield self._batch(some)

    def end(self) -> None:
        """Keep what there is now for the range behind this one."""
        assert self._wanted is not None
        assert self._before is not None
        _keep((self._wanted.cluster_id, self._wanted.end), self._before)

    def _is_wanted(self, entity: str) -> bool:
        return not self.entities or entity in self.entities

    def _rows(self) -> Rows:
        assert self._wanted is not None
        return Rows(self.schema, {"cluster_id": self._wanted.cluster_id, RETRIES.name: 0})

    def _batch(self, some: list[ChangeRow]) -> pa.RecordBatch:
        return change_batch(some, self._rows()).rename_columns(self.spelled)

    def _problem(self, problem: Problem) -> pa.RecordBatch:
        where = f"offset {problem.origin.offset}: {problem.reason}"
        if self.is_failfast:
            raise ProtocolError(where)
        place: dict[str, Any] = {"offset": problem.origin.offset, "epoch": problem.origin.epoch}
        return self._rows().one(error=problem.reason, **place).rename_columns(self.spelled)


def _keep(place: tuple[str | None, int], before: Before) -> None:
    _kept[place] = before
    _kept.move_to_end(place)
    while len(_kept) > _KEPT:
        _kept.popitem(last=False)
