"""`content=batches`: one row per batch."""

from __future__ import annotations

import pyarrow as pa

from kraft_trio.spark.decoding.damage import Damage
from kraft_trio.spark.decoding.headers import field
from kraft_trio.spark.decoding.rows import (
    Rows,
    int32s,
    int64s,
    is_no_timestamp,
    names,
    no_timestamp,
    sparse_texts,
    timestamps,
)
from kraft_trio.spark.decoding.scan import Run
from kraft_trio.storage.batches.batch_header import (
    COMPRESSION_ATTRIBUTES,
    CONTROL_ATTRIBUTE,
    LOG_APPEND_TIME_ATTRIBUTE,
    TRANSACTIONAL_ATTRIBUTE,
)

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def batch_rows(run: Run, rows: Rows) -> pa.RecordBatch:
    headers = run.headers
    attributes = headers["attributes"].astype("i2")
    return rows.make(
        len(run),
        {
            "position": lambda: int64s(run.positions + run.buffer_position),
            "size": lambda: int32s(run.sizes),
            "base_offset": lambda: int64s(headers["base_offset"]),
            "last_offset": lambda: int64s(field(headers, "base_offset") + field(headers, "last_offset_delta")),
            "epoch": lambda: int32s(headers["leader_epoch"]),
            "magic": lambda: int32s(headers["magic"]),
            "compression": lambda: names(attributes & COMPRESSION_ATTRIBUTES, COMPRESSIONS),
            "control": lambda: pa.array(attributes & CONTROL_ATTRIBUTE != 0),
            "transactional": lambda: pa.array(attributes & TRANSACTIONAL_ATTRIBUTE != 0),
            "timestamp_type": lambda: names(attributes & LOG_APPEND_TIME_ATTRIBUTE != 0, TIMESTAMP_TYPES),
            "base_timestamp": lambda: timestamps(field(headers, "base_timestamp_ms")),
            "max_timestamp": lambda: timestamps(field(headers, "max_timestamp_ms")),
            "producer_id": lambda: int64s(headers["producer_id"]),
            "producer_epoch": lambda: int32s(headers["producer_epoch"]),
            "base_sequence": lambda: int32s(headers["base_sequence"]),
            "record_count": lambda: int32s(headers["record_count"]),
            "crc": lambda: int64s(headers["crc"]),
            "content_crc": lambda: int64s(run.crcs),
            "crc_ok": lambda: pa.array(run.crcs == headers["crc"]),
            "error": lambda: _errors(run),
        },
    )


def _errors(run: Run) -> pa.Array:
    texts = {**run.misplaced, **run.damaged}
    for name in ("base_timestamp_ms", "max_timestamp_ms"):
        times = field(run.headers, name)
        for at in is_no_timestamp(times).nonzero()[0].tolist():
            texts.setdefault(at, f"{name.partition('_')[0]} {no_timestamp(int(times[at]))}")
    return sparse_texts(len(run), texts)


def damage_row(damage: Damage, rows: Rows) -> pa.RecordBatch:
    return rows.one(position=damage.position, size=damage.size, error=damage.error)
