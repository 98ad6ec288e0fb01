"""`content=latest-by-key`: what Spark reads is what the state machine of that name has as of the offset."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest
import trio
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StructType

from kraft_trio.application.latest_by_key import LatestByKey
from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.spark.directories.latest_by_key import LatestByKeyReader, latest_columns
from kraft_trio.spark.directories.latest_state import LatestState
from kraft_trio.spark.directories.partitions import checked_options
from kraft_trio.spark.schemas import arrow_schema
from kraft_trio.storage.batches.batch import NewRecord, Record, encode_batch, patch_base_offset_and_epoch
from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter
from tests.spark.directories import PARTITION, make_node
from tests.spark.loading import fields

IN_BATCH = 5
SEGMENT = 100
KeyAndValue = tuple[bytes | None, bytes | None]


def load(path: Path | str, schema: StructType | None = None, **options: Any) -> list[dict[str, Any]]:
    given = {"path": str(path), "content": "latest-by-key", **{name: str(value) for name, value in options.items()}}
    given = {name.replace("__", "."): text for name, text in given.items()}
    if schema is None:
        schema = from_arrow_schema(arrow_schema(latest_columns(checked_options(given))))
    reader = LatestByKeyReader(given, schema)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def pairs(rows: list[dict[str, Any]]) -> list[KeyAndValue]:
    return [(row["key"], row["value"]) for row in rows if row["error"] is None]


def errors(rows: list[dict[str, Any]]) -> list[str]:
    return [row["error"] for row in rows if row["error"] is not None]


def segment(history: Sequence[KeyAndValue], offset: int) -> bytes:
    made = bytearray()
    for first in range(offset, min(offset + SEGMENT, len(history)), IN_BATCH):
        some = [NewRecord(value, key) for key, value in history[first : first + IN_BATCH]]
        batch = bytearray(encode_batch(some, timestamp_ms=1_000_000 + first))
        patch_base_offset_and_epoch(batch, 0, first, 1)
        made += batch
    return bytes(made)


def write_log(parent: Path, history: Sequence[KeyAndValue], begins: int = 0, snapshots: Sequence[int] = ()) -> Path:
    """A node's directory with segments from that offset on, and snapshots that end at these offsets."""
    offsets = range(begins, len(history), SEGMENT)
    node = make_node(parent, 1, *((offset, segment(history, offset)) for offset in offsets))
    for end in snapshots:
        trio.run(write_snapshot, str(node / PARTITION), end, state_of(history, end))
    return node


async def write_snapshot(partition: str, end: int, records: Sequence[NewRecord]) -> None:
    async with SnapshotWriter(RealDisk(), partition, OffsetAndEpoch(end, 1), ControlState(5)) as writer:
        await writer.append(records)
        await writer.finish()


def state_of(history: Sequence[KeyAndValue], end: int) -> list[NewRecord]:
    """The state that a node has after the records below that offset."""
    machine = LatestByKey()
    records = [Record(offset, 1_000_000, key, value) for offset, (key, value) in enumerate(history[:end])]
    trio.run(machine.on_commit, records)
    return list(machine.save())


def expected(history: Sequence[KeyAndValue], end: int) -> list[KeyAndValue]:
    return [(record.key, record.value) for record in state_of(history, end)]


@pytest.fixture
def history() -> list[KeyAndValue]:
    """Keys that are set, deleted and set again, and records without a key."""
    pick = random.Random(7)
    keys = [None, *(b"k%d" % number for number in range(40))]
    return [(pick.choice(keys), pick.choice([None, b"v%d" % offset, b"v%d" % offset])) for offset in range(400)]


@pytest.mark.parametrize("as_of", [0, 1, 37, 100, 199, 200, 201, 333, 400, "latest", '{"offset": 250}'])
@pytest.mark.parametrize("snapshots", [[], [150], [200, 300]])
def test_the_state_is_that_of_the_state_machine(
    tmp_path: Path, history: list[KeyAndValue], as_of: int | str, snapshots: list[int]
) -> None:
    node = write_log(tmp_path, history, snapshots=snapshots)
    rows = load(node, asOfOffset=as_of)
    end = {"latest": 400, '{"offset": 250}': 250}.get(str(as_of), as_of)
    assert errors(rows) == []
    assert pairs(rows) == expected(history, int(end))
    base = max((snapshot for snapshot in snapshots if snapshot <= int(end)), default=None)
    for row in rows:
        assert (row["offset"] is None) == (row["snapshot_end_offset"] is not None)
        assert row["snapshot_end_offset"] in (None, base)
        assert row["offset"] is None or history[row["offset"]] == (row["key"], row["value"])


def test_a_trimmed_log_goes_back_to_its_oldest_snapshot(tmp_path: Path, history: list[KeyAndValue]) -> None:
    node = write_log(tmp_path, history, begins=200, snapshots=[200, 300])
    assert pairs(load(node, asOfOffset=250)) == expected(history, 250)
    [problem] = errors(load(node, asOfOffset=150))
    assert problem == "the state as of offset 150 is incomplete: no snapshot, and the log begins at 200"
    (node / PARTITION / f"{200:020d}-{1:010d}.checkpoint").unlink()
    (node / PARTITION / f"{200:020d}.log").unlink()
    (node / PARTITION / f"{300:020d}-{1:010d}.checkpoint").rename(node / PARTITION / f"{299:020d}-{1:010d}.checkpoint")
    assert errors(load(node)) == [
        "the state as of offset latest is incomplete: the newest snapshot at or below it ends at 299, and the log "
        "begins at 300"
    ]
    with pytest.raises(StorageError, match=r"node1: the state as of offset 150 is incomplete"):
        load(node, asOfOffset=150, mode="FAILFAST")


def test_a_replica_that_lags_says_up_to_where_its_state_is(tmp_path: Path, history: list[KeyAndValue]) -> None:
    rows = load(write_log(tmp_path, history), asOfOffset=401)
    assert errors(rows) == ["the state is that of offset 400: the log ends there, before asOfOffset=401"]
    assert pairs(rows) == expected(history, 400)


def test_damage_is_told_and_the_rest_is_folded(tmp_path: Path, history: list[KeyAndValue]) -> None:
    node = write_log(tmp_path, history)
    file = node / PARTITION / f"{300:020d}.log"
    content = bytearray(file.read_bytes())
    content[HEADER_BYTES + 3] ^= 1
    file.write_bytes(content)
    rows = load(node)
    assert [error.partition(",")[0][:9] for error in errors(rows)] == ["CRC is 0x"]
    without = [*history[:300], *[(b"lost", None)] * IN_BATCH, *history[305:]]
    assert pairs(rows) == expected(without, 400)


@pytest.mark.parametrize("newest", [b"new", None])
def test_a_time_that_no_column_holds_changes_no_state(tmp_path: Path, newest: bytes | None) -> None:
    """Clients choose the times of their records."""
    records = [NewRecord(b"old", b"a"), NewRecord(b"kept", b"b"), NewRecord(newest, b"a", timestamp_ms=2**61)]
    batch = bytearray(encode_batch(records, timestamp_ms=1_000_000))
    patch_base_offset_and_epoch(batch, 0, 0, 1)
    rows = load(make_node(tmp_path, 1, (0, bytes(batch))))
    assert sorted(pairs(rows)) == sorted([(b"b", b"kept")] + ([] if newest is None else [(b"a", newest)]))
    [error] = errors(rows)
    assert error.startswith(f"timestamp is {2**61} ms since 1970")


def test_values_become_columns(tmp_path: Path) -> None:
    history: list[KeyAndValue] = [(b"a", msgpack.packb({"n": number})) for number in range(3)]
    node = write_log(tmp_path, [*history, (b"b", b"\xc1")])
    schema = fields(KEY=BinaryType(), n=LongType())
    rows = load(node, schema, value__format="msgpack")
    assert rows == [{"KEY": b"a", "n": 2}, {"KEY": b"b", "n": None}]
    with pytest.raises(ConfigError, match=r"give the columns of the values with schema\(…\)"):
        load(node, value__format="msgpack")


def test_wrong_columns_and_options_are_named(tmp_path: Path) -> None:
    node = write_log(tmp_path, [(b"a", b"1")])
    with pytest.raises(ConfigError, match="content=latest-by-key has no column position; known are directory"):
        load(node, fields(position=LongType()))
    with pytest.raises(ConfigError, match="column value is binary, not int64"):
        load(node, fields(value=LongType()))
    with pytest.raises(ConfigError, match="option asOfOffset=3: says nothing of content=records; expected content=lat"):
        checked_options({"asOfOffset": "3"})


def test_what_is_folded_is_bounded_and_equals_the_whole() -> None:
    """Folding in many small steps gives what folding once gives."""
    pick = random.Random(3)
    rows = [(b"%d" % pick.randrange(30), pick.choice([None, b"x" * 50])) for _ in range(2000)]
    whole, stepwise = LatestState(), LatestState(fold_at_bytes=1000)
    most = 0
    for first in range(0, len(rows), 10):
        keys, values = zip(*rows[first : first + 10], strict=True)
        batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        whole.add(batch)
        stepwise.add(batch)
        most = max(most, len(stepwise._pending))
    assert most < 10, "folded long before all of it is there"
    [once], [many] = whole.batches(10_000), stepwise.batches(10_000)
    assert once.to_pylist() == many.to_pylist()
    newest = dict(rows)
    assert {row["key"]: row["value"] for row in many.to_pylist()} == {k: v for k, v in newest.items() if v is not None}
