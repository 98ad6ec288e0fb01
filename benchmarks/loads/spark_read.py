"""Write a directory, or read it as a task of the Spark source does: `python -m benchmarks.loads.spark_read --help`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pyarrow as pa

from kraft_trio.spark.decoding.batch_filter import BatchFilter
from kraft_trio.spark.directories.pieces import plan_pieces
from kraft_trio.spark.directories.reading import ReadPlan, read_pieces
from kraft_trio.spark.directories.replicas import find_replicas
from kraft_trio.spark.schemas import CONTENTS, arrow_schema
from kraft_trio.storage.batches.batch import (
    NewRecord,
    check_crc,
    decode_records,
    encode_batch,
    iter_headers,
    patch_base_offset_and_epoch,
)

PARTITION = "__cluster_metadata-0"
SEGMENT_BYTES = 64 * 1024 * 1024
TARGET_BYTES = 32 * 1024 * 1024
VALUES = 50
"""How many different sizes of value there are, so that records and batches are not all of one size."""


def value_bytes(batch: int, record: int) -> int:
    """The size of the value of that record in that batch."""
    number = batch * 31 % VALUES + 1
    return number + (number * record) % 7


@click.group(help=__doc__)
def main() -> None: ...


@main.command(help="Batches of that many records each, until there are so many of them; prints the bytes written.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--batches", type=int, required=True)
@click.option("--records-a-batch", type=int, required=True)
def write(directory: Path, batches: int, records_a_batch: int) -> None:
    (directory / PARTITION).mkdir(parents=True)
    made = [
        bytearray(
            encode_batch(
                [NewRecord(bytes(value_bytes(number, at))) for at in range(records_a_batch)],
                timestamp_ms=1_700_000_000_000,
            )
        )
        for number in range(VALUES)
    ]
    offset = written = 0
    segment: list[bytes] = []
    size = base_offset = 0
    for number in range(batches):
        batch = made[number % VALUES]
        patch_base_offset_and_epoch(batch, 0, offset, 1)
        segment.append(bytes(batch))
        size += len(batch)
        offset += records_a_batch
        if size >= SEGMENT_BYTES or number == batches - 1:
            (directory / PARTITION / f"{base_offset:020d}.log").write_bytes(b"".join(segment))
            written += size
            segment, size, base_offset = [], 0, offset
    click.echo(json.dumps({"bytes": written}))


@main.command(help="All rows as Arrow batches of every column; prints rows and seconds.")
@click.argument("directory")
@click.option("--content", type=click.Choice([*CONTENTS]), required=True)
def columns(directory: str, content: str) -> None:
    plan = ReadPlan(content, arrow_schema(CONTENTS[content]), BatchFilter(), is_fail_fast=True)

    def batches() -> Iterator[pa.RecordBatch]:
        return read_pieces(plan_pieces(find_replicas([directory], False), content, plan.wanted, TARGET_BYTES), plan)

    # A worker of Spark's reads one task after the other: what is imported at first use is so once.
    next(batches())
    _timed(lambda: sum(batch.num_rows for batch in batches()))


@main.command(help="The same bytes in a Python loop over kraft_trio.storage; prints rows and seconds.")
@click.argument("directory")
@click.option("--content", type=click.Choice(["batches", "records"]), required=True)
def loop(directory: str, content: str) -> None:
    def read() -> int:
        rows = 0
        for path in sorted(Path(directory, PARTITION).glob("*.log")):
            data = path.read_bytes()
            for position, header in iter_headers(data):
                check_crc(data, position, header)
                rows += len(decode_records(data, position, header)) if content == "records" else 1
        return rows

    _timed(read)


def _timed(read: Callable[[], int]) -> None:
    began, cpu = time.perf_counter(), _cpu_s()
    rows = read()
    seconds, cpu_s = time.perf_counter() - began, _cpu_s() - cpu
    click.echo(json.dumps({"rows": rows, "seconds": seconds, "cpu_s": cpu_s}))


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system


if __name__ == "__main__":
    main()
