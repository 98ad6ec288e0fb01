"""Counts the questions to the leader that a task repeats, and writes them into the column `retries`."""

from __future__ import annotations

import pyarrow as pa

from kraft_trio.spark.live.columns import RETRIES


class Retries:
    """What has been repeated since the last row."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        self._count += 1

    def noted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the count in its first row, if it has the column; begins again at 0."""
        names = [name.lower() for name in batch.schema.names]
        if not self._count or not batch.num_rows or RETRIES.name not in names:
            return batch
        at = names.index(RETRIES.name)
        counts = pa.array([self._count, *batch.column(at)[1:].to_pylist()], RETRIES.type)
        self._count = 0
        return batch.set_column(at, batch.schema.field(at), counts)
