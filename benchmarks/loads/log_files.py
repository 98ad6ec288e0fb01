"""Write a log of a given size, or open one and say how long it took: `python -m benchmarks.loads.log_files --help`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from uuid import UUID

import click
import trio

from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig

CHUNK_BYTES = 1 << 20
TIMESTAMP_MS = 1_700_000_000_000


def _open(directory: str) -> Log:
    return Log.open(
        RealDisk(),
        directory,
        topic_id=UUID(int=1),
        static_voters=VoterSet(),
        config=LogConfig(),
        now_ms=lambda: time.time_ns() // 1_000_000,
    )


@click.group(help=__doc__)
def main() -> None: ...


@main.command(help="Append batches of one record each until the log has that size.")
@click.argument("directory")
@click.option("--batch-bytes", type=click.IntRange(128), required=True, help="Size of a batch, its header included.")
@click.option("--total-bytes", type=int, required=True)
@click.option("--idempotent", is_flag=True, help="With a producer id and sequence numbers in the batches.")
@click.option("--unclean", is_flag=True, help="End without closing the log, as a killed node does.")
def write(directory: str, batch_bytes: int, total_bytes: int, idempotent: bool, unclean: bool) -> None:
    trio.run(_write, directory, batch_bytes, total_bytes, idempotent, unclean)


async def _write(directory: str, batch_bytes: int, total_bytes: int, idempotent: bool, unclean: bool) -> None:
    log = _open(directory)
    record = [NewRecord(value=b"x" * (batch_bytes - _overhead(batch_bytes)))]
    plain = encode_batch(record, timestamp_ms=TIMESTAMP_MS)
    per_chunk = max(CHUNK_BYTES // batch_bytes, 1)
    total = total_bytes // batch_bytes
    for first in range(0, total, per_chunk):
        numbers = range(first, min(first + per_chunk, total))
        if idempotent:
            batches = [
                encode_batch(record, timestamp_ms=TIMESTAMP_MS, producer_id=1, producer_epoch=0, base_sequence=number)
                for number in numbers
            ]
        else:
            batches = [plain] * len(numbers)
        log.append_as_leader(bytearray().join(batches), 1)
    await log.sync()
    if unclean:
        os._exit(0)
    await log.close()


def _overhead(batch_bytes: int) -> int:
    """Bytes of a batch of one record in addition to the record's value."""
    return len(encode_batch([NewRecord(value=b"x" * batch_bytes)], timestamp_ms=TIMESTAMP_MS)) - batch_bytes


@main.command("open", help="Open the log once; print the seconds it took and what it holds as JSON.")
@click.argument("directory")
@click.option("--cold", is_flag=True, help="First drop the files' pages from the system's cache.")
def open_(directory: str, cold: bool) -> None:
    if cold:
        _drop_from_cache(Path(directory))
    trio.run(_open_and_close, directory)


async def _open_and_close(directory: str) -> None:
    began = time.perf_counter()
    log = _open(directory)
    seconds = time.perf_counter() - began
    end_offset = log.end_offset
    await log.close()
    click.echo(json.dumps({"seconds": seconds, "end_offset": end_offset}))


def _drop_from_cache(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


if __name__ == "__main__":
    main()
