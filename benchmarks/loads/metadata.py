"""Write a log of Kafka's metadata, or read it in one way: `python -m benchmarks.loads.metadata --help`."""

from __future__ import annotations

import json
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pyarrow as pa

from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.directories.as_of import AsOf
from kraft_trio.spark.directories.pieces import plan_pieces
from kraft_trio.spark.directories.reading import ReadPlan, read_pieces
from kraft_trio.spark.directories.replicas import find_replicas
from kraft_trio.spark.metadata.changes import CHANGE_COLUMNS, change_rows
from kraft_trio.spark.metadata.state import state_columns, state_rows
from kraft_trio.spark.metadata.typed_records import NEEDED, typed_columns, typed_rows
from kraft_trio.spark.schemas import CONTENTS, arrow_schema
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, patch_base_offset_and_epoch
from kraft_trio.wire import metadata_schemas as schemas
from kraft_trio.wire.metadata_schemas import SCHEMAS
from kraft_trio.wire.schema_writer import message_writer

PARTITION = "__cluster_metadata-0"
SEGMENT_BYTES = 64 * 1024 * 1024
TARGET_BYTES = 64 * 1024 * 1024
PARTITIONS = 12
REPLICAS = 3
BROKERS = 30
IN_BATCH = 50
ONE_TYPE = "PARTITION_CHANGE_RECORD"
_KEYS = {schema.record: key for key, schema in SCHEMAS.items()}


def framed(record: Any) -> bytes:
    key = _KEYS[type(record)]
    chunks: list[bytes] = []
    message_writer(SCHEMAS[key].structure(SCHEMAS[key].max_version), SCHEMAS[key].name)(chunks, record)
    return bytes([1, key, SCHEMAS[key].max_version]) + b"".join(chunks)


@click.group(help=__doc__)
def main() -> None: ...


@main.command(help="Topics with their partitions, and then changes of these until there are so many bytes.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--topics", type=int, required=True)
@click.option("--total-bytes", type=int, required=True)
def write(directory: Path, topics: int, total_bytes: int) -> None:
    (directory / PARTITION).mkdir(parents=True)
    source = random.Random(1)
    ids = [UUID(int=source.getrandbits(128)) for _ in range(topics)]
    created = list(_created(source, ids))
    changes = [_batch([_change(source, ids) for _ in range(IN_BATCH)]) for _ in range(max(topics // 10, 20))]
    offset = written = count = 0
    file = None
    batches = [_batch(created[at : at + IN_BATCH]) for at in range(0, len(created), IN_BATCH)]
    number = 0
    while number < len(batches) or written < total_bytes:
        batch, records = batches[number] if number < len(batches) else changes[number % len(changes)]
        if file is None or file.tell() >= SEGMENT_BYTES:
            if file is not None:
                file.close()
            file = (directory / PARTITION / f"{offset:020d}.log").open("wb")
        patch_base_offset_and_epoch(batch, 0, offset, 1)
        file.write(batch)
        offset, written, count, number = offset + records, written + len(batch), count + records, number + 1
    assert file is not None
    file.close()
    click.echo(json.dumps({"bytes": written, "records": count}))


def _created(source: random.Random, ids: list[UUID]) -> Iterator[bytes]:
    for broker in range(BROKERS):
        yield framed(
            schemas.RegisterBrokerRecord(broker, False, UUID(int=broker + 1), broker, (), (), None, False, False)
        )
    for number, id in enumerate(ids):
        yield framed(schemas.TopicRecord(f"topic-{number}", id))
        for partition in range(PARTITIONS):
            replicas = tuple(source.sample(range(BROKERS), REPLICAS))
            directories = tuple(map(_directory, replicas))
            yield framed(
                schemas.PartitionRecord(partition, id, replicas, replicas, (), (), replicas[0], 0, 0, directories)
            )


def _change(source: random.Random, ids: list[UUID]) -> bytes:
    """What a large reassignment writes: throttled replicas of topics, ISRs that shrink and grow, and new replicas."""
    if source.random() < 0.3:
        number = source.randrange(len(ids))
        throttled = ",".join(f"{partition}:{broker}" for partition in range(PARTITIONS) for broker in range(6))
        return framed(schemas.ConfigRecord(2, f"topic-{number}", "follower.replication.throttled.replicas", throttled))
    id, partition = source.choice(ids), source.randrange(PARTITIONS)
    isr = tuple(source.sample(range(BROKERS), source.randint(1, REPLICAS)))
    if source.random() < 0.5:
        return framed(schemas.PartitionChangeRecord(partition, id, isr=isr, leader=source.choice((-2, isr[0]))))
    replicas = tuple(source.sample(range(BROKERS), REPLICAS))
    directories = tuple(map(_directory, replicas))
    return framed(
        schemas.PartitionChangeRecord(
            partition,
            id,
            isr=isr,
            leader=isr[0],
            replicas=replicas,
            directories=directories,
            adding_replicas=replicas[:1],
            removing_replicas=isr[:1],
            eligible_leader_replicas=isr[1:],
        )
    )


def _directory(broker: int) -> UUID:
    """Each broker has one."""
    return UUID(int=(broker + 1) << 80)


def _batch(values: list[bytes]) -> tuple[bytearray, int]:
    return bytearray(encode_batch([NewRecord(value) for value in values], timestamp_ms=1_764_000_000_000)), len(values)


@main.command(help="Read everything in one way; prints rows, seconds, processor time and peak memory.")
@click.argument("way", type=click.Choice(["one-type", "all-types", "state", "changes"]))
@click.argument("path")
def read(way: str, path: str) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    rows = {"one-type": _typed, "all-types": _typed, "state": _state, "changes": _changes}[way](path, way)
    answer = {
        "rows": rows,
        "seconds": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    click.echo(json.dumps(answer))


def _typed(path: str, way: str) -> int:
    wanted = [ONE_TYPE] if way == "one-type" else []
    schema = arrow_schema(typed_columns(wanted))
    names = {column.name: column.type for column in CONTENTS["records"] if column.name in schema.names}
    plan = ReadPlan("records", pa.schema([*(names | NEEDED).items()]), BatchFilter(), is_fail_fast=False)
    pieces = plan_pieces(find_replicas([path], False), "records", BatchFilter(), TARGET_BYTES)
    made = (typed_rows(batch, schema, frozenset(wanted) or None) for batch in read_pieces(pieces, plan))
    return sum(batch.num_rows for batch in made)


def _state(path: str, way: str) -> int:
    [replica] = find_replicas([path], False)
    schema = arrow_schema(state_columns(ENTITIES["partitions"]))
    return sum(batch.num_rows for batch in state_rows(replica, "partitions", AsOf(), schema))


def _changes(path: str, way: str) -> int:
    [replica] = find_replicas([path], False)
    return sum(batch.num_rows for batch in change_rows(replica, 0, AsOf(), arrow_schema(CHANGE_COLUMNS)))


if __name__ == "__main__":
    main()
