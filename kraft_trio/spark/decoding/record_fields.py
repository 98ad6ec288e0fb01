"""Decodes many uncompressed records at once into numpy columns, without copying.

Only the usual forms are decoded here.  A batch with anything else is left to `storage.batches.batch.decode_records`.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraft_trio.spark.decoding.header_fields import HeaderFields, read_headers
from kraft_trio.spark.decoding.headers import Ints
from kraft_trio.spark.decoding.payloads import Spans
from kraft_trio.spark.decoding.record_starts import record_starts
from kraft_trio.spark.decoding.varints import Bytes, read_varints

_MOST_HEADERS = 512 * 1024
"""Limit for the headers of all records.  Batches beyond it are unusual: they are decoded a record at a time."""

Bools = npt.NDArray[np.bool_]


@attrs.frozen
class RecordFields:
    """One row per record, in order.  Positions are in the data; ends are exclusive."""

    batch: Ints
    """The index of its span."""
    size: Ints
    """Size in bytes, including the length field."""
    timestamp_delta: Ints
    offset_delta: Ints
    key_start: Ints
    key_end: Ints
    is_key_null: Bools
    value_start: Ints
    value_end: Ints
    is_value_null: Bools
    headers: HeaderFields | None
    """None if no record has headers."""

    def __len__(self) -> int:
        return len(self.batch)

    def headers_column(self, data: bytes) -> pa.Array:
        """The column `headers`, with an empty list for a record without headers."""
        headers = self.headers or HeaderFields.none()
        return headers.column(data, len(self))

    def select(self, wanted: Ints) -> RecordFields:
        """The records at these places, ascending."""
        arrays = {
            attribute.name: getattr(self, attribute.name)[wanted]
            for attribute in attrs.fields(RecordFields)
            if attribute.name != "headers"
        }
        return RecordFields(**arrays, headers=None if self.headers is None else self.headers.select(wanted))


def misnumbered(fields: RecordFields, last_offset_deltas: Ints) -> set[int]:
    """The spans with offset deltas that do not rise, or lie outside the batch."""
    deltas, batch = fields.offset_delta, fields.batch
    is_wrong = (deltas < 0) | (deltas > last_offset_deltas[batch])
    is_wrong[1:] |= (deltas[1:] <= deltas[:-1]) & (batch[1:] == batch[:-1])
    return set(np.unique(batch[is_wrong]).tolist()) if is_wrong.any() else set()


def read_records(data: bytes, spans: Spans) -> tuple[RecordFields, set[int]]:
    """The records of all spans, and the spans with unusual or wrong content, whose records must be ignored."""
    view: Bytes = np.frombuffer(data, np.uint8)
    starts, counts = record_starts(data, view, spans)
    batch = np.repeat(np.arange(len(spans)), counts)
    unusual = np.zeros(len(starts), bool)

    def varint(positions: Ints) -> tuple[Ints, Ints]:
        values, after, too_long = read_varints(view, positions)
        unusual[too_long] = True
        return values, after

    length, at = varint(starts)
    end = at + length
    timestamp_delta, at = varint(at + 1)
    offset_delta, at = varint(at)
    key_length, key_start = varint(at)
    key_end = key_start + np.maximum(key_length, 0)
    value_length, value_start = varint(key_end)
    value_end = value_start + np.maximum(value_length, 0)
    header_count, at = varint(value_end)

    # Each record ends where the next one of its batch begins, or where the batch ends.
    expected_end = np.empty_like(end)
    expected_end[:-1] = starts[1:]
    is_last = np.empty(len(batch), bool)
    is_last[:-1] = batch[1:] != batch[:-1]
    is_last[-1:] = True
    expected_end[is_last] = spans.ends[batch[is_last]]
    unusual |= end != expected_end
    unusual |= (length < 0) | (key_length < -1) | (value_length < -1) | (header_count < 0)
    unusual |= (key_length > end - key_start) | (value_length > end - value_start)
    headers = None
    unusual |= np.cumsum(np.clip(header_count, 0, _MOST_HEADERS + 1)) > _MOST_HEADERS
    with_headers = np.flatnonzero((header_count != 0) & ~unusual)
    unusual |= (header_count == 0) & (at != end)
    if len(with_headers):
        headers, wrong = read_headers(data, view, with_headers, header_count, at, end)
        unusual[wrong] = True
    fields = RecordFields(
        batch=batch,
        size=end - starts,
        timestamp_delta=timestamp_delta,
        offset_delta=offset_delta,
        key_start=key_start,
        key_end=key_end,
        is_key_null=key_length < 0,
        value_start=value_start,
        value_end=value_end,
        is_value_null=value_length < 0,
        headers=headers,
    )
    others = np.flatnonzero((counts != spans.counts) | (spans.counts == 0))
    return fields, {*others.tolist(), *np.unique(batch[unusual]).tolist()}
