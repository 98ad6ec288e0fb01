"""Bombs in a log that Spark reads: rows of bounded batches, or one row that says what is wrong, in little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from kraft_trio.spark.decoding import payloads, record_rows
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.decoding.scan import Run, scan
from kraft_trio.spark.schemas import arrow_schema
from kraft_trio.storage.batch_header import Compression
from kraft_trio.storage.record_limits import MAX_READ_HEADERS
from tests.spark.logs import COLUMNS, Counted, read
from tests.storage.support import batch
from tests.support import bombs

MEBIBYTE = 1024 * 1024


def tables(data: bytes, taken: Callable[[pa.RecordBatch], Any]) -> list[Any]:
    """What is taken of each table of rows, which is then given up."""
    rows = Rows(arrow_schema(COLUMNS["records"]), {"directory": "d"})
    wanted = BatchFilter()
    found = []
    for run in scan(Counted(data, None), 0, len(data), Expectation(0), MEBIBYTE):
        assert isinstance(run, Run), "damage where there is none"
        found += [taken(table) for table in record_rows.record_rows(wanted.select(run), rows, wanted)]
    return found


@pytest.mark.parametrize(
    ("bomb", "reason"),
    [
        (bombs.many_headers(Compression.ZSTD, 2_000_000), f"at most {MAX_READ_HEADERS} allowed"),
        (bombs.claimed_count(Compression.GZIP), "end, position 7: cut"),
        (bombs.zstd_window(), "zstd records"),
        (bombs.bomb_frames(Compression.LZ4, 2, MEBIBYTE), "record"),
        (bombs.snappy_claim(), "more than 67108864 bytes when decompressed"),
        (bombs.expansion(Compression.ZSTD, 65 * MEBIBYTE), "at most 67108864 allowed"),
    ],
    ids=["headers", "claimed count", "window", "frames", "claim", "record"],
)
def test_bomb_is_a_row_and_what_follows_is_read(bomb: bytes, reason: str) -> None:
    count = int.from_bytes(bomb[57:61], "big")
    data = bomb + batch(b"after", base_offset=count)
    tracemalloc.start()
    table = read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    first, second = table.rows
    assert reason in first["error"]
    assert (second["value"], second["error"]) == (b"after", None)
    assert peak < 48 * MEBIBYTE


@pytest.mark.parametrize("codec", bombs.CODECS, ids=lambda codec: codec.name)
def test_large_compressed_batch_is_read_in_parts(codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is where it has more records than are decoded side by side."""
    monkeypatch.setattr(payloads, "MOST_RECORDS_OF_ONE", 1000)
    monkeypatch.setattr(record_rows, "_MOST_ROWS", 5000)
    sizes = tables(bombs.tiny_records(codec, 20_000), lambda table: table.num_rows)
    assert (sum(sizes), max(sizes)) == (20_000, 5000)


def test_rows_of_a_large_batch_are_those_of_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bombs.tiny_records(Compression.LZ4, 3000)
    expected = tables(data, lambda table: table.to_pylist())
    monkeypatch.setattr(payloads, "MOST_RECORDS_OF_ONE", 100)
    found = tables(data, lambda table: table.to_pylist())
    assert list(chain.from_iterable(found)) == list(chain.from_iterable(expected))


def test_content_that_is_much_larger_than_a_task_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "MOST_BYTES", MEBIBYTE)
    monkeypatch.setattr(record_rows, "MOST_BYTES", MEBIBYTE)
    data = bombs.bomb_of_small_values(Compression.ZSTD, 200, 100_000)
    tracemalloc.start()
    values = tables(data, lambda table: table.num_rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(values) == 200
    assert peak < 8 * MEBIBYTE
