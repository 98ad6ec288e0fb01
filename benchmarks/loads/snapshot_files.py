"""Write, check or copy a snapshot, or open a log at it: `python -m benchmarks.loads.snapshot_files --help`.

Each command prints one JSON object: bytes, seconds, and what it cost this process.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID

import click
import trio

from benchmarks.loads.large_state import different_values, repeated
from benchmarks.measurement import percentile
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, check_snapshot
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter

SNAPSHOT_ID = OffsetAndEpoch(1_000_000_000, 1)
KEY = b"a key of 16 byte"
TICK_S = 0.001
KINDS = {
    "values": "values alone",
    "keyed": "records with a key, each made when it is asked for, as of a dictionary",
    "kept": "records with a key and a time of their own, which are there already, as in LatestByKey",
}


def records_of(kind: str, total_bytes: int, record_bytes: int) -> Iterable[NewRecord | bytes]:
    values = different_values(record_bytes)
    if kind == "values":
        return repeated(values, total_bytes, values)
    if kind == "keyed":
        return (NewRecord(value, KEY) for value in repeated(values, total_bytes, values))
    kept = [NewRecord(value, KEY, (), 3 * number) for number, value in enumerate(values)]
    # One by one from a generator, as `LatestByKey` gives them.
    return (record for record in repeated(kept, total_bytes, values))


@click.group(help=__doc__)
def main() -> None: ...


@main.command(
    help="Write a snapshot of that size; how long another task had to wait for its turn is measured meanwhile."
)
@click.argument("directory")
@click.option("--record-bytes", type=int, required=True, help="Of a value on average: half to one and a half times.")
@click.option("--total-bytes", type=int, required=True)
@click.option("--kind", type=click.Choice(list(KINDS)), default="values", help="; ".join(map(": ".join, KINDS.items())))
def write(directory: str, record_bytes: int, total_bytes: int, kind: str) -> None:
    trio.run(_write, directory, records_of(kind, total_bytes, record_bytes))


async def _write(directory: str, records: Iterable[NewRecord | bytes]) -> None:
    waits_ms: list[float] = []

    async def take_turns() -> None:
        while True:
            began = time.perf_counter()
            await trio.sleep(TICK_S)
            waits_ms.append((time.perf_counter() - began - TICK_S) * 1000)

    disk = RealDisk()
    began, began_cpu = time.perf_counter(), time.process_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        async with SnapshotWriter(disk, directory, SNAPSHOT_ID, ControlState(0)) as writer:
            await writer.append(records)
            summary = await writer.finish()
        nursery.cancel_scope.cancel()
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    waits_ms.sort()
    _print(summary.size_in_bytes, seconds, cpu_seconds=cpu_seconds, p99_wait_ms=percentile(waits_ms, 0.99))


@main.command(help="Read a snapshot to its end, as opening a log does.")
@click.argument("directory")
def check(directory: str) -> None:
    path = f"{directory}/{checkpoint_name(SNAPSHOT_ID)}"
    _print_timed(path, lambda: check_snapshot(RealDisk(), path, SNAPSHOT_ID))


@main.command("open", help="Open a log that begins where the snapshot ends.")
@click.argument("directory")
def open_(directory: str) -> None:
    def opened() -> Log:
        return Log.open(
            RealDisk(),
            directory,
            topic_id=UUID(int=1),
            static_voters=VoterSet(),
            config=LogConfig(),
            now_ms=lambda: time.time_ns() // 1_000_000,
        )

    _print_timed(f"{directory}/{checkpoint_name(SNAPSHOT_ID)}", opened)


@main.command(help="Copy a snapshot as any program would, a megabyte at a time, and fsync it: what there is to reach.")
@click.argument("directory")
def copy(directory: str) -> None:
    source = Path(directory, checkpoint_name(SNAPSHOT_ID))
    target = Path(directory, "copy")

    def copied() -> None:
        with source.open("rb") as reading, target.open("wb") as writing:
            while piece := reading.read(1 << 20):
                writing.write(piece)
            writing.flush()
            os.fsync(writing.fileno())

    _print_timed(str(source), copied)
    target.unlink()


def _print_timed(path: str, action: Callable[[], object]) -> None:
    began, began_cpu = time.perf_counter(), time.process_time()
    action()
    _print(os.path.getsize(path), time.perf_counter() - began, cpu_seconds=time.process_time() - began_cpu)


def _print(size_in_bytes: int, seconds: float, **others: float) -> None:
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"bytes": size_in_bytes, "seconds": seconds, "peak_mib": peak_kib / 1024, **others}))


if __name__ == "__main__":
    main()
