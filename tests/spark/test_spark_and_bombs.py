"""Bombs in a log that Spark reads: rows of bounded batches, or one row that says what is wrong, in little memory."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.decoding import msgpack_values, payloads, record_fields, record_rows
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.msgpack_values import msgpack_columns
from kraft_trio.spark.decoding.rows import Rows
from kraft_trio.spark.decoding.scan import Run, scan
from kraft_trio.spark.decoding.snapshot_rows import snapshot_row
from kraft_trio.spark.directories import partitions
from kraft_trio.spark.directories.partitions import checked_options, columns_of
from kraft_trio.spark.live.columns import live_columns
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.options import read_stream_options
from kraft_trio.spark.live.rows import RowMaker
from kraft_trio.spark.schemas import CONTENTS, arrow_schema
from kraft_trio.storage.batches.batch import encode_control_batch, patch_base_offset_and_epoch, peek_header
from kraft_trio.storage.batches.batch_header import CONTROL_ATTRIBUTE, Compression, patch_crc
from kraft_trio.storage.batches.control_records import SnapshotFooter, SnapshotHeader
from kraft_trio.storage.batches.record_limits import MAX_CONTROL_BYTES, MAX_READ_HEADERS, MAX_RECORDS
from tests.spark.directories import batches, make_node
from tests.spark.logs import ATTRIBUTES_LOW_BYTE, COLUMNS, Counted, read
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


@pytest.fixture(scope="module", autouse=True)
def modules_are_imported() -> None:
    """The first rows import modules of 20 MiB, which are no memory of the rows."""
    tables(batch(b"first"), lambda table: table.num_rows)


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


def test_headers_of_many_records_are_decoded_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_fields, "_MOST_HEADERS", 10_000)
    monkeypatch.setattr(record_rows, "_MOST_ROWS", 100)
    data = bombs.headers_everywhere(Compression.ZSTD, 1000, 60) + batch(b"after", base_offset=1000)
    tracemalloc.start()
    sizes = tables(data, lambda table: table.num_rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(sizes) == 1001
    assert peak < 4 * MEBIBYTE


def control(bomb: bytes) -> bytes:
    """The same as a control batch."""
    made = bytearray(bomb)
    made[ATTRIBUTES_LOW_BYTE] |= CONTROL_ATTRIBUTE
    patch_crc(made)
    return bytes(made)


def test_control_records_are_rows_of_few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """One table a record costs a second for a thousand of them."""
    made = []
    monkeypatch.setattr(Rows, "some", lambda self, rows, some=Rows.some: made.append(len(rows)) or some(self, rows))
    table = read(control(bombs.tiny_records(Compression.ZSTD, 3000, key=b"\0\0\0\7")), "control")
    assert [row["offset"] for row in table.sound] == list(range(3000))
    assert max(made) <= 1024
    assert len(made) == 3


@pytest.mark.parametrize(
    ("bomb", "reason"),
    [
        (bombs.expansion(Compression.ZSTD, 2 * MEBIBYTE), f"more than {MAX_CONTROL_BYTES} bytes when decompressed"),
        (bombs.repeated_record(Compression.ZSTD, MAX_RECORDS + 1), f"at most {MAX_RECORDS} allowed"),
    ],
    ids=["size", "records"],
)
def test_control_batch_over_its_bound_is_one_row(bomb: bytes, reason: str) -> None:
    [row] = read(control(bomb), "control").rows
    assert reason in row["error"]
    assert (row["position"], row["batch_offset"]) == (0, 0)


def snapshot(*batches: bytes) -> bytes:
    """A snapshot of epoch 0 with these batches between its header and its footer."""
    made, offset = b"", 0
    header, footer = (
        encode_control_batch([record], timestamp_ms=0) for record in (SnapshotHeader(0), SnapshotFooter())
    )
    for one in (header, *batches, footer):
        placed = bytearray(one)
        patch_base_offset_and_epoch(placed, 0, offset, 0)
        offset = peek_header(placed).next_offset
        made += placed
    return made


def row_of_snapshot(data: bytes) -> tuple[dict[str, Any], int]:
    """The row, and the memory that it took."""
    rows = Rows(arrow_schema(CONTENTS["snapshots"]), {"directory": "d"})
    tracemalloc.start()
    [row] = snapshot_row(Counted(data, None), OffsetAndEpoch(9, 0), rows).to_pylist()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return row, peak


def test_snapshot_that_expands_is_hashed_in_parts() -> None:
    bomb = bombs.bomb_of_small_values(Compression.ZSTD, 300, 100_000)
    row, peak = row_of_snapshot(snapshot(bomb))
    plain, _ = row_of_snapshot(snapshot(bombs.bomb_of_small_values(Compression.NONE, 300, 100_000)))
    assert (row["valid"], row["record_count"]) == (True, 300)
    assert row["content_sha256"] == plain["content_sha256"]
    assert peak < 8 * MEBIBYTE


def test_snapshot_with_a_record_over_the_bound_is_a_row() -> None:
    bomb = bombs.expansion(Compression.ZSTD, 65 * MEBIBYTE)
    row, peak = row_of_snapshot(snapshot(bomb))
    assert "segment: position " in row["error"]
    assert "at most 67108864 allowed" in row["error"]
    assert not row["valid"]
    assert peak < 8 * MEBIBYTE


def test_sampled_values_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(partitions, "SAMPLED_BYTES", 1000)
    make_node(tmp_path, 1, (0, batches(0, [[msgpack.packb({"a": "." * 600})] * 3, [msgpack.packb({"b": 1})]])))
    options = checked_options({"path": f"{tmp_path}/node1", "value.format": "msgpack"})
    assert "a" in [column.name for column in columns_of(options)]
    assert "b" not in [column.name for column in columns_of(options)]


@pytest.mark.parametrize("item", [b"\x80", b"\x90", b"\x00"], ids=["maps", "lists", "numbers"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_msgpack_value_of_many_items_is_a_problem(item: bytes, is_nested: bool) -> None:
    """A value that expands to a hundred times its size in Python."""
    inner = b"\xdd" + struct.pack(">I", 600_000) + item * 600_000
    value = b"\x92" + inner * 2 if is_nested else b"\xdd" + struct.pack(">I", 1_200_000) + item * 1_200_000
    values = pa.array([value, msgpack.packb({"a": 1})], pa.binary())
    [column], problems = msgpack_columns(values, [pa.field("a", pa.int64())])
    assert column.to_pylist() == [None, 1]
    assert list(problems) == [0]


def test_msgpack_values_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all of a table's values are Python objects at a time."""
    monkeypatch.setattr(msgpack_values, "_SMALL_BYTES", 10_000)
    value = b"\x81\xa1a\xdc\x03\xe8" + b"\x80" * 1000
    values = pa.array([*([value] * 200), b"\xc1"], pa.binary())
    tracemalloc.start()
    [column], problems = msgpack_columns(values, [pa.field("b", pa.int64())])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert column.to_pylist() == [None] * 201
    assert list(problems) == [200]
    assert peak < 2 * MEBIBYTE


@pytest.mark.parametrize("bomb", [bombs.zstd_window(), bombs.many_headers(Compression.ZSTD, 2_000_000)])
def test_stream_names_the_offset_of_a_bomb(bomb: bytes) -> None:
    options = read_stream_options({"bootstrapControllers": "localhost:9093"})
    rows = RowMaker.of(options, from_arrow_schema(arrow_schema(live_columns(options))))
    placed = bytearray(bomb)
    patch_base_offset_and_epoch(placed, 0, 7, 1)
    with pytest.raises(ProtocolError, match=r"^batch at offset 7: "):
        list(rows.rows_of(bytes(placed), LogRange(None, 7, 8)))


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
