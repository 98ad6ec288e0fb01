"""Plan a query over many replicas, as Spark's driver does: `python -m benchmarks.loads.spark_plan --help`."""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import click
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.pandas.types import from_arrow_schema

from kraft_trio.spark.directories.partitions import DirectoryReader
from kraft_trio.spark.schemas import CONTENTS, arrow_schema
from kraft_trio.storage.directory.meta_properties import META_PROPERTIES, MetaProperties, encode_meta_properties

PARTITION = "__cluster_metadata-0"
SEGMENT_BYTES = 2**30
OFFSETS_A_SEGMENT = 10_000_000


@click.group(help=__doc__)
def main() -> None: ...


@main.command(help="Directories of so many replicas, of so many segments of 1 GiB, which are holes.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--replicas", type=int, required=True)
@click.option("--segments", type=int, required=True)
def write(directory: Path, replicas: int, segments: int) -> None:
    for node in range(replicas):
        partition = directory / f"node-{node}" / PARTITION
        partition.mkdir(parents=True)
        properties = MetaProperties("benchmark", node, UUID(int=node + 1))
        (partition.parent / META_PROPERTIES).write_bytes(encode_meta_properties(properties))
        for segment in range(segments):
            name = f"{segment * OFFSETS_A_SEGMENT:020d}"
            with open(partition / f"{name}.log", "wb") as file:
                file.truncate(SEGMENT_BYTES)
            (partition / f"{name}.index").touch()


@main.command(help="Prints what planning of a query over a glob takes.")
@click.argument("pattern")
@click.option("--content", type=click.Choice([*CONTENTS]), default="batches", show_default=True)
def plan(pattern: str, content: str) -> None:
    schema = from_arrow_schema(arrow_schema(CONTENTS[content]))
    began, cpu, read = time.perf_counter(), _cpu_s(), _bytes_read()
    partitions = DirectoryReader({"path": pattern, "content": content}, schema).partitions()
    planned = time.perf_counter()
    pickler: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
    pickled = sum(len(pickler.dumps(partition)) for partition in partitions)
    click.echo(
        json.dumps(
            {
                "seconds": time.perf_counter() - began,
                "of_them_listing": planned - began,
                "cpu_s": _cpu_s() - cpu,
                "bytes_read": _bytes_read() - read,
                "tasks": len(partitions),
                "pickled_bytes": pickled,
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


def _bytes_read() -> int:
    """By this process, from files of any kind."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system


if __name__ == "__main__":
    main()
