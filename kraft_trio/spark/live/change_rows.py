"""`content=changes` of a live quorum: what was before a range is replayed once, and kept for the range behind it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs
import pyarrow as pa

from kraft_trio.errors import ProtocolError
from kraft_trio.metadata.history import History, Problem
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.live.columns import RETRIES
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.image_before import apply_batch, image_before
from kraft_trio.spark.live.options import LiveOptions
from kraft_trio.spark.live.position import UNKNOWN_EPOCH
from kraft_trio.spark.live.quorum import DataLossError
from kraft_trio.spark.metadata.changes import ChangeRow, change_batch, existing_rows, rows_of
from kraft_trio.storage.batches.batch import iter_headers

ROWS_AT_ONCE: Final = 10_000
_KEPT: Final = 4
_kept: OrderedDict[tuple[str, int, int], History] = OrderedDict()
"""What was before an offset of a cluster, most recently used last.  Spark uses a worker's process again.  The key
also has the epoch of the record before the offset, because a cluster that is made anew may have its old id."""


@attrs.define
class ChangesOfTask:
    """Makes the rows of one range; without a range, it is what tasks begin with."""

    schema: pa.Schema
    spelled: tuple[str, ...]
    options: LiveOptions
    _wanted: LogRange | None = None
    _history: History | None = None
    """None if what was before the range is gone, until the next batch."""
    _next: int = 0
    """The offset that the next batch must have at the latest."""

    def of_task(self, wanted: LogRange) -> ChangesOfTask:
        """Replay what was before the range.  Raises like `image_before`."""
        history = None
        if wanted.cluster_id is not None and wanted.epoch_before != UNKNOWN_EPOCH:
            history = _kept.get((wanted.cluster_id, wanted.begin, wanted.epoch_before))
        if history is None:
            try:
                history = image_before(self.options, wanted)
            except DataLossError:
                if self.options.fail_on_data_loss:
                    raise
            else:
                _keep(wanted.cluster_id, wanted.begin, wanted.epoch_before, history)
        # A task may be repeated, so what is kept stays as it is.
        own = None if history is None else history.copy()
        return attrs.evolve(self, wanted=wanted, history=own, next=wanted.begin)

    def before(self) -> Iterator[pa.RecordBatch]:
        """What exists where the log begins, if that is where the query begins."""
        if self._history is not None and self._wanted is not None and self._wanted.begins_with_state:
            yield from self._batches(existing_rows(self._history))

    def rows_of(self, records: bytes, wanted: LogRange) -> Iterator[pa.RecordBatch]:
        """Raises ProtocolError for damaged batches and, in FAILFAST mode, for records that cannot be applied.

        If the log was trimmed meanwhile (failOnDataLoss=false), what exists behind the gap comes first.
        """
        yield from self._batches(self._steps(records, wanted))

    def end(self) -> None:
        """Keep what there is now for the range behind this one."""
        if self._history is not None and self._wanted is not None and self._next >= self._wanted.end:
            epoch = self._history.newest.epoch
            _keep(self._wanted.cluster_id, self._wanted.end, UNKNOWN_EPOCH if epoch is None else epoch, self._history)

    def _steps(self, records: bytes, wanted: LogRange) -> Iterator[ChangeRow | Problem]:
        for position, header in iter_headers(records):
            if self._history is None or header.base_offset > self._next:
                self._history = image_before(self.options, attrs.evolve(wanted, begin=header.base_offset))
                yield from existing_rows(self._history)
            left = attrs.evolve(wanted, begin=max(wanted.begin, self._next))
            self._next = header.next_offset
            for step in apply_batch(self._history, records, position, header, left):
                yield from (step,) if isinstance(step, Problem) else rows_of(step)

    def _batches(self, steps: Iterable[ChangeRow | Problem]) -> Iterator[pa.RecordBatch]:
        some: list[ChangeRow] = []
        for step in steps:
            if isinstance(step, ChangeRow) and (not self.options.entities or step.entity in self.options.entities):
                some.append(step)
            if some and (isinstance(step, Problem) or len(some) == ROWS_AT_ONCE):
                yield self._batch(some)
                some = []
            if isinstance(step, Problem):
                yield self._problem(step)
        if some:
            yield self._batch(some)

    def _rows(self) -> Rows:
        assert self._wanted is not None
        return Rows(self.schema, {"cluster_id": self._wanted.cluster_id, RETRIES.name: 0})

    def _batch(self, some: list[ChangeRow]) -> pa.RecordBatch:
        return change_batch(some, self._rows()).rename_columns(self.spelled)

    def _problem(self, problem: Problem) -> pa.RecordBatch:
        where = f"offset {problem.origin.offset}: {problem.reason}"
        if self.options.is_failfast:
            raise ProtocolError(where)
        place: dict[str, Any] = {"offset": problem.origin.offset, "epoch": problem.origin.epoch}
        return self._rows().one(error=problem.reason, **place).rename_columns(self.spelled)


def _keep(cluster_id: str | None, offset: int, epoch: int, history: History) -> None:
    if cluster_id is None or epoch == UNKNOWN_EPOCH:
        return
    _kept[cluster_id, offset, epoch] = history
    _kept.move_to_end((cluster_id, offset, epoch))
    while len(_kept) > _KEPT:
        _kept.popitem(last=False)
