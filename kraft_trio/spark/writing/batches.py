"""Divides the rows of a partition into batches, and says what is the same batch as one in the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import attrs

from kraft_trio.client.log_client import split_into_batches
from kraft_trio.errors import RecordTooLargeError
from kraft_trio.storage.batches.batch import NewRecord, Record


@attrs.frozen
class RowBatch:
    """Rows of a partition that are appended together."""

    first_row: int
    """Counted from 0 in the partition."""
    records: Sequence[NewRecord]
    is_whole_partition: bool
    """Whether these are all rows, so that they are in the log all or not at all."""


def batches_of(rows: Iterable[Sequence[NewRecord]], max_batch_bytes: int) -> Iterator[RowBatch]:
    """The batches of a partition, in order, from the records of its Arrow batches.

    They depend on the rows and `max_batch_bytes`, not on how Spark divides the rows: a repeated attempt has the same
    batches.  Raises RecordTooLargeError naming the row, after the batches before it.
    """
    first_row = 0
    held: list[NewRecord] = []
    for records in rows:
        try:
            *full, held = split_into_batches([*held, *records], max_batch_bytes) or [[]]
        except RecordTooLargeError as error:
            raise RecordTooLargeError(
                f"of the rows of this task from row {first_row} on: {error} (maxBatchBytes, and the quorum's "
                "message.max.bytes)"
            ) from error
        for batch in full:
            yield RowBatch(first_row, batch, is_whole_partition=False)
            first_row += len(batch)
    if held:
        yield RowBatch(first_row, held, is_whole_partition=first_row == 0)


def in_one_order(rows: Iterable[Sequence[NewRecord]]) -> Iterator[list[NewRecord]]:
    """All records of a partition, sorted: the same order whatever order Spark brings them in."""
    yield sorted((record for records in rows for record in records), key=_place)


def _place(record: NewRecord) -> tuple[object, ...]:
    headers = tuple((name, value is not None, value or b"") for name, value in record.headers)
    return record.key is not None, record.key or b"", record.value is not None, record.value or b"", headers


def first_difference(batch: RowBatch, stored: Sequence[Record]) -> int | None:
    """The number within the partition of the first row that differs from the log's; None if all are equal.

    If the batch is the whole partition, the order of its rows may differ: the log has them all.
    """
    wanted = [(record.key, record.value, record.headers) for record in batch.records]
    found = [(record.key, record.value, record.headers) for record in stored]
    if wanted == found or (batch.is_whole_partition and Counter(wanted) == Counter(found)):
        return None
    pairs = zip(wanted, found, strict=False)
    differing = (index for index, (ours, theirs) in enumerate(pairs) if ours != theirs)
    return batch.first_row + next(differing, min(len(wanted), len(found)))
