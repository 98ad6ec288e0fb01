"""Folds a log into the newest record of each key, as `kraft.state.machine=latest-by-key` does, in Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute

KEY = "key"
VALUE = "value"
_ROW = "row"
_FOLD_AT_BYTES = 64 * 1024 * 1024
"""Least size of what is folded at a time."""


class LatestState:
    """The newest record of each key, in log order.  A null value deletes its key; records without a key are all kept.

    Holds the state, and as many records again that are not folded in yet, or 64 MiB.
    """

    def __init__(self, fold_at_bytes: int = _FOLD_AT_BYTES) -> None:
        self._fold_at_bytes = fold_at_bytes
        self._state: pa.Table | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0

    def add(self, records: pa.RecordBatch) -> None:
        """Add records that follow all earlier ones in the log."""
        self._pending.append(records)
        self._pending_bytes += records.nbytes
        if self._pending_bytes >= max(self._fold_at_bytes, self._state.nbytes if self._state is not None else 0):
            self._fold()

    def batches(self, rows_a_batch: int) -> Iterable[pa.RecordBatch]:
        self._fold()
        return [] if self._state is None else self._state.to_batches(max_chunksize=rows_a_batch)

    def _fold(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending)
        self._pending, self._pending_bytes = [], 0
        if self._state is not None:
            table = pa.concat_tables([self._state, table])
        self._state = newest(table)


def newest(table: pa.Table) -> pa.Table:
    """The newest row of each key that has a value, and all rows without a key, in the order of the table."""
    keys = table.column(KEY)
    numbered = pa.table({KEY: keys, _ROW: np.arange(len(table))})
    has_key = keys.is_valid()
    last = numbered.filter(has_key).group_by(KEY).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
    last = last.filter(table.column(VALUE).is_valid().take(last))
    without = numbered.filter(pa.compute.invert(has_key)).column(_ROW)
    return table.take(pa.array(np.sort(np.concatenate([last.to_numpy(), without.to_numpy()]))))
