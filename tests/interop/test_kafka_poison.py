"""Kafka's own class reads and refuses the batches of the table, and reads our logs and snapshots."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import trio

from harness.kafka import adapted, java
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter
from tests.support.unreadable import CASES

READER = Path(__file__).with_name("RecordReader.java")
JVM_SECONDS = 120


def read_by_kafka(directory: Path, files: Iterable[Path]) -> list[str]:
    """What Kafka's RecordsIterator says of each file: `read BATCHES RECORDS`, or its error."""
    program = directory / READER.name
    program.write_text(adapted(READER.read_text()))
    paths = "".join(f"{path}\n" for path in files)
    done = subprocess.run(
        java(str(program)), input=paths, capture_output=True, text=True, timeout=JVM_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kafka_ends_at_what_the_rule_refuses_and_reads_the_rest(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.log" for number in range(len(CASES))]
    for path, case in zip(files, CASES.values(), strict=True):
        path.write_bytes(case.batch)
    said = dict(zip(CASES, read_by_kafka(tmp_path, files), strict=True))
    for name, case in CASES.items():
        assert (case.kafka or "read 1 ") in said[name], name


def test_kafka_reads_snapshots_of_values_of_several_times(tmp_path: Path) -> None:
    times = [1000, 1000, 2000, None, None, 3000]
    snapshot_id = OffsetAndEpoch(6, 1)

    async def write() -> None:
        async with SnapshotWriter(RealDisk(), str(tmp_path), snapshot_id, ControlState(3000)) as writer:
            await writer.append(NewRecord(b"value", timestamp_ms=at) for at in times)
            await writer.finish()

    trio.run(write)
    # Four of data, and those of the header and the footer.
    assert read_by_kafka(tmp_path, [tmp_path / checkpoint_name(snapshot_id)]) == [f"read 6 {len(times) + 2}"]
