"""`content=records` and `snapshot-records`: one row per record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraft_trio.errors import ProtocolError
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.control_rows import control_type_name
from kraft_trio.spark.decoding.headers import Headers, Ints, field
from kraft_trio.spark.decoding.numbered_records import sized_records
from kraft_trio.spark.decoding.payloads import MOST_BYTES, Payload, payloads
from kraft_trio.spark.decoding.record_fields import RecordFields, misnumbered, read_records
from kraft_trio.spark.decoding.rows import (
    Rows,
    binaries,
    int32s,
    int64s,
    is_no_timestamp,
    microseconds,
    no_timestamp,
    sparse_texts,
    timestamps,
)
from kraft_trio.spark.decoding.scan import Run
from kraft_trio.storage.batches.batch import BatchHeader
from kraft_trio.storage.batches.batch_header import CONTROL_ATTRIBUTE, LOG_APPEND_TIME_ATTRIBUTE

_FAR = 2**61
"""Beyond this, offsets and times need Python's integers."""
_MOST_ROWS = 16 * 1024
"""Limit for Python objects at a time."""
_HEADER_BYTES = 256
"""Estimated size of a header as Python objects."""


def record_rows(run: Run, rows: Rows, wanted: BatchFilter) -> Iterator[pa.RecordBatch]:
    """One row per record; an unreadable batch gives one row that says so."""
    for payload in payloads(run):
        yield from _payload_rows(run, payload, rows, wanted)


def _payload_rows(run: Run, payload: Payload, rows: Rows, wanted: BatchFilter) -> Iterator[pa.RecordBatch]:
    fields, unusual = read_records(payload.data, payload.spans)
    far = np.abs(run.headers[payload.batches]["base_timestamp_ms"]) > _FAR
    far |= run.headers[payload.batches]["base_offset"] > _FAR
    unusual |= misnumbered(fields, field(run.headers[payload.batches], "last_offset_delta"))
    unusual |= {*np.flatnonzero(far).tolist(), *np.flatnonzero(np.isin(payload.batches, list(run.damaged))).tolist()}
    if not unusual:
        yield _usual_rows(run, payload, fields, rows, wanted)
        return
    start = 0
    for at in sorted(unusual):
        if at > start:
            yield from _payload_rows(run, payload.part(start, at), rows, wanted)
        yield from _unusual_batch(run, int(payload.batches[at]), rows, wanted)
        start = at + 1
    if start < len(payload.batches):
        yield from _payload_rows(run, payload.part(start, len(payload.batches)), rows, wanted)


def _usual_rows(run: Run, payload: Payload, fields: RecordFields, rows: Rows, wanted: BatchFilter) -> pa.RecordBatch:
    headers = run.headers[payload.batches]
    base_offsets = field(headers, "base_offset")
    offsets = base_offsets[fields.batch] + fields.offset_delta
    misplaced = {}
    if run.misplaced:
        batches = payload.batches.tolist()
        misplaced = {at: run.misplaced[batch] for at, batch in enumerate(batches) if batch in run.misplaced}
    kept = wanted.records(offsets)
    if wanted.has_times:
        kept &= wanted.times(_milliseconds(headers, fields))
    kept |= np.isin(fields.batch, list(misplaced))
    if not kept.all():
        fields = fields.select(np.flatnonzero(kept))
        offsets = offsets[kept]
    batch = fields.batch
    data = payload.data

    def per_record(values: npt.NDArray[np.generic]) -> Ints:
        return values.astype(np.int64)[batch]

    is_control = headers["attributes"] & CONTROL_ATTRIBUTE != 0

    def control_types() -> pa.Array:
        places = np.flatnonzero(is_control[batch])
        keys = (
            None if fields.is_key_null[at] else data[fields.key_start[at] : fields.key_end[at]]
            for at in places.tolist()
        )
        types = {at: control_type_name(key) for at, key in zip(places.tolist(), keys, strict=True)}
        return sparse_texts(len(fields), types)

    def errors() -> pa.Array:
        texts = {}
        if misplaced:
            texts = {at: misplaced[number] for at, number in enumerate(batch.tolist()) if number in misplaced}
        times = _milliseconds(headers, fields)
        for at in np.flatnonzero(is_no_timestamp(times)).tolist():
            texts.setdefault(at, no_timestamp(int(times[at])))
        return sparse_texts(len(fields), texts)

    return rows.make(
        len(fields),
        {
            "position": lambda: int64s(per_record(run.positions[payload.batches] + run.buffer_position)),
            "batch_offset": lambda: int64s(base_offsets[batch]),
            "offset": lambda: int64s(offsets),
            "epoch": lambda: int32s(headers["leader_epoch"].astype(np.int32)[batch]),
            "timestamp": lambda: timestamps(_milliseconds(headers, fields)),
            "control": lambda: pa.array(is_control[batch]),
            "control_type": control_types,
            "key": lambda: binaries(data, fields.key_start, fields.key_end, fields.is_key_null),
            "value": lambda: binaries(data, fields.value_start, fields.value_end, fields.is_value_null),
            "headers": lambda: fields.headers_column(data),
            "timestampType": lambda: int32s(_has_append_time(headers)[batch]),
            "crc_ok": lambda: pa.repeat(True, len(fields)),
            "size": lambda: int32s(fields.size),
            "error": errors,
        },
    )


def _has_append_time(headers: Headers) -> npt.NDArray[np.bool_]:
    is_append_time: npt.NDArray[np.bool_] = headers["attributes"] & LOG_APPEND_TIME_ATTRIBUTE != 0
    return is_append_time


def _milliseconds(headers: Headers, fields: RecordFields) -> Ints:
    """The records' timestamps."""
    created = headers["base_timestamp_ms"].astype(np.int64)[fields.batch] + fields.timestamp_delta
    is_append_time = _has_append_time(headers)
    if not is_append_time.any():
        return created
    return np.where(is_append_time[fields.batch], headers["max_timestamp_ms"].astype(np.int64)[fields.batch], created)


def _unusual_batch(run: Run, at: int, rows: Rows, wanted: BatchFilter) -> Iterator[pa.RecordBatch]:
    """Decode one batch through Python objects; its damage, if any, becomes a row."""
    header = run.header(at)
    place = {
        "position": run.buffer_position + int(run.positions[at]),
        "batch_offset": header.base_offset,
        "epoch": header.leader_epoch,
        "control": header.is_control,
        "timestampType": int(header.has_log_append_time),
        "crc_ok": at not in run.damaged,
    }
    error = run.damaged.get(at)
    if error is None:
        error = _what_is_wrong(run, at, header)
    if error is not None:
        yield rows.one(**place, size=header.size_in_bytes, error=error)
        return
    made = []
    made_bytes = 0
    for record, size in sized_records(run.buffer, int(run.positions[at]), header):
        if at not in run.misplaced and not wanted.has(record):
            continue
        timestamp, problem = microseconds(record.timestamp_ms)
        values = {
            "offset": record.offset,
            "timestamp": timestamp,
            "control_type": control_type_name(record.key) if header.is_control else None,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": name, "value": value} for name, value in record.headers],
            "size": size,
            "error": run.misplaced.get(at) or problem,
        }
        made.append({**place, **values})
        made_bytes += size + _HEADER_BYTES * len(record.headers)
        if len(made) >= _MOST_ROWS or made_bytes >= MOST_BYTES:
            yield rows.some(made)
            made, made_bytes = [], 0
    yield rows.some(made)


def _what_is_wrong(run: Run, at: int, header: BatchHeader) -> str | None:
    """Why the batch is unreadable, if it is; known before its first row is yielded."""
    try:
        for _ in sized_records(run.buffer, int(run.positions[at]), header):
            pass
    except ProtocolError as wrong:
        return str(wrong)
    return None
