"""A snapshot of ours is read by our dump, and read again after somebody has written its content in another way.

Kafka packs records into batches of its own sizes, stamps them with its clock, may compress them, and leaves out what it
does not know.  `test_snapshot_files.TestKafkas` has its bytes for the same content, and
`interop/test_kafka_snapshots.py` its own code.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraft_trio.cli import run
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import Compression, NewRecord, decode_records, encode_batch, encode_control_batch
from kraft_trio.storage.batches.control_records import ControlRecord, SnapshotHeader
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.segments.producer_snapshot import encode_producer_snapshot
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, check_snapshot, open_snapshot
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter
from tests.storage.support import DIRECTORY, KAFKAS_VOTERS, batch, open_log

ID = OffsetAndEpoch(40, 3)
NAME = checkpoint_name(ID)
PATH = f"{DIRECTORY}/{NAME}"
KAFKAS_CLOCK_MS = 1_800_000_000_123
RECORDS = [
    NewRecord(b"%d" % number * (number % 50), key=b"key" if number % 3 else None, headers=(("h", b"x"),) * (number % 2))
    for number in range(300)
]


def state_with_producers() -> ControlState:
    states = ProducerStates()
    states.record(7, 1, 20, 30, 34, 1000)
    return ControlState(1000, KAFKAS_VOTERS, 1, encode_producer_snapshot(states))


async def written(disk: SimulatedDisk, state: ControlState) -> None:
    disk.make_directory(DIRECTORY)
    async with SnapshotWriter(disk, DIRECTORY, ID, state, batch_bytes=1000) as writer:
        await writer.append(RECORDS)
        await writer.finish()


def contents(disk: SimulatedDisk) -> list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    return [
        (record.key, record.value, record.headers)
        for found in open_snapshot(disk, PATH, ID)
        if not found.header.is_control
        for record in decode_records(found.data, 0, found.header)
    ]


def encoded_again(disk: SimulatedDisk, compression: Compression) -> bytes:
    """The snapshot again: control records without tags, the others in batches of a hundred, with other timestamps."""
    control: list[list[ControlRecord]] = []
    for found in open_snapshot(disk, PATH, ID):
        records = found.control_records
        if records:
            plain = [
                SnapshotHeader(r.last_contained_log_timestamp_ms) if isinstance(r, SnapshotHeader) else r
                for r in records
            ]
            control.append(plain)
    data = [NewRecord(value, key, headers) for key, value, headers in contents(disk)]
    batches: list[bytes] = []
    offset = 0
    first, last = control
    for position in range(0, len(data) + 1, 100):
        if position == 0:
            batches.append(
                encode_control_batch(first, timestamp_ms=KAFKAS_CLOCK_MS, base_offset=offset, leader_epoch=ID.epoch)
            )
            offset += len(first)
        some = data[position : position + 100]
        if some:
            batches.append(
                encode_batch(
                    some,
                    timestamp_ms=KAFKAS_CLOCK_MS + position,
                    base_offset=offset,
                    leader_epoch=ID.epoch,
                    compression=compression,
                )
            )
            offset += len(some)
    batches.append(encode_control_batch(last, timestamp_ms=KAFKAS_CLOCK_MS, base_offset=offset, leader_epoch=ID.epoch))
    return b"".join(batches)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
async def test_written_in_another_way_it_says_the_same(compression: Compression) -> None:
    disk = SimulatedDisk()
    state = state_with_producers()
    await written(disk, state)
    before, summary = contents(disk), check_snapshot(disk, PATH, ID)
    again = encoded_again(disk, compression)
    assert again != disk.read_bytes(PATH)
    disk.replace_now(PATH, again)
    assert contents(disk) == before
    resummed = check_snapshot(disk, PATH, ID)
    assert resummed.record_count == summary.record_count == len(RECORDS)
    assert resummed.batch_count == 5 < summary.batch_count
    assert resummed.control_state == ControlState(1000, KAFKAS_VOTERS, 1), "all but what others do not know"


async def test_a_log_goes_on_from_it() -> None:
    disk = SimulatedDisk()
    await written(disk, state_with_producers())
    disk.replace_now(PATH, encoded_again(disk, Compression.NONE))
    log = open_log(disk)
    assert (log.log_start_offset, log.end, log.high_watermark) == (40, ID, 40)
    assert (log.voters.voters, log.voters.kraft_version, len(log.producers)) == (KAFKAS_VOTERS, 1, 0)
    log.append_as_leader(batch(b"next"), 4)
    await log.sync()
    await log.close()


@pytest.mark.parametrize("state", [state_with_producers(), ControlState(1000)], ids=["dynamic", "static"])
async def test_our_dump_reads_it(state: ControlState, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disk = SimulatedDisk()
    await written(disk, state)
    path = tmp_path / NAME
    path.write_bytes(disk.read_bytes(PATH))
    assert run(["dump-log", "--json", str(path)]) == 0
    batches = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    records = [record for dumped in batches for record in dumped["records"]]
    offsets = [record["offset"] for record in records]
    assert offsets == list(range(len(offsets)))
    kinds = [record["controlType"] for record in records if "controlType" in record]
    of_voters = ["KRaftVersion", "KRaftVoters"] if state.voters else []
    assert kinds == ["SnapshotHeader", *of_voters, "SnapshotFooter"]
    data = [record for record in records if "controlType" not in record]
    assert [(record["key"], record["value"]) for record in data] == [
        (record.key.decode() if record.key else None, (record.value or b"").decode()) for record in RECORDS
    ]
