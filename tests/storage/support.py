"""What the storage tests share: small batches, logs on simulated disks, and the files that Kafka wrote."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.types import (
    Endpoint,
    Endpoints,
    OffsetAndEpoch,
    ReplicaKey,
    VersionRange,
    directory_id_from_text,
)
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.disk.failing_calls import CallPredicate
from kraft_trio.simulation.disk.file import SimulatedFile
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, decode_records, encode_batch, encode_control_batch
from kraft_trio.storage.batches.control_records import ControlRecord, KRaftVersion, VotersRecord
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.segments.log_append import plan_leader_append
from kraft_trio.storage.segments.producer_snapshot import encode_producer_snapshot, load_producer_snapshot
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, open_snapshot
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter

TOPIC_ID = UUID(int=1)
DIRECTORY = "/data/__cluster_metadata-0"
FIRST_SEGMENT = f"{DIRECTORY}/{0:020d}.log"
RECOVERY_POINT = f"{DIRECTORY}/recovery-point"
DIRECTORY_ID = directory_id_from_text("b8tRS7h4TJ2Vt43Dp85v2A")
STATIC_VOTERS = VoterSet([Voter(ReplicaKey(id)) for id in (1, 2, 3)])
KAFKAS_VOTERS = VoterSet(
    [
        Voter(
            ReplicaKey(1, DIRECTORY_ID),
            Endpoints({"CONTROLLER": Endpoint("localhost", 9093)}),
            VersionRange(0, 1),
        )
    ]
)

_DATA = Path(__file__).parent.parent / "data" / "partition-directories.txt"


def kafkas_files(directory: str) -> dict[str, bytes]:
    """The files of "dynamic" (kraft.version 1) or "static" (0), by name."""
    lines = [line.split() for line in _DATA.read_text().splitlines() if not line.startswith("#")]
    return {
        path.partition("/")[2]: b"" if content == "-" else bytes.fromhex(content)
        for path, content in lines
        if path.startswith(f"{directory}/")
    }


def batch(*values: bytes, timestamp_ms: int = 1000, **fields: int) -> bytes:
    return encode_batch([NewRecord(value) for value in values], timestamp_ms=timestamp_ms, **fields)  # type: ignore[arg-type]


def open_log(
    disk: Disk,
    directory: str = DIRECTORY,
    *,
    segment_bytes: int = 1 << 30,
    max_batch_bytes: int = 1 << 20,
    static_voters: VoterSet = STATIC_VOTERS,
    preallocate_bytes: int = 0,
) -> Log:
    return Log.open(
        disk,
        directory,
        topic_id=TOPIC_ID,
        static_voters=static_voters,
        config=LogConfig(
            segment_bytes=segment_bytes,
            segment_ms=10**9,
            max_batch_bytes=max_batch_bytes,
            preallocate_bytes=preallocate_bytes,
        ),
        now_ms=lambda: 0,
    )


def values_in(log: Log) -> list[bytes | None]:
    """The values of all data records, in order."""
    return [
        record.value
        for header, data in log.iter_batches(log.log_start_offset, log.end_offset)
        if not header.is_control
        for record in decode_records(data, 0, header)
    ]


def voters_batch(voters: VoterSet, kraft_version: int | None = None, timestamp_ms: int = 1000) -> bytes:
    """A control batch that changes the voters, and the kraft.version where one is given."""
    records: list[ControlRecord] = [] if kraft_version is None else [KRaftVersion(kraft_version)]
    return encode_control_batch([*records, VotersRecord(voters)], timestamp_ms=timestamp_ms)


def producer_batch(value: bytes, base_sequence: int, producer_id: int = 7) -> bytes:
    """One record of an idempotent producer."""
    return batch(value, producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence)


def snapshot_state(log: Log, offset: int) -> ControlState:
    """What held at that offset (exclusive): the newest snapshot's, and what the log has behind it."""
    producers = ProducerStates()
    timestamp_ms = -1
    base = log.snapshots.newest
    from_offset = 0
    if base is not None and base.offset <= offset:
        state = log.snapshots.control_state(base)
        timestamp_ms, from_offset = state.last_contained_log_timestamp_ms, base.offset
        if state.producers:
            load_producer_snapshot("", state.producers, producers)
    for header, _ in log.iter_batches(max(from_offset, log.log_start_offset), offset):
        timestamp_ms = header.max_timestamp_ms
        producers.record(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp_ms,
        )
    kraft_version = log.voters.kraft_version_at(offset - 1)
    return ControlState(
        timestamp_ms,
        log.voters.voters_at(offset - 1) if kraft_version else None,
        kraft_version,
        encode_producer_snapshot(producers) if len(producers) else b"",
        log.voters.removed_at(offset - 1) if kraft_version else (),
    )


def snapshot_values(log: Log, offset: int) -> list[bytes]:
    """The state of a state machine that remembers every value: those before that offset (exclusive)."""
    values: list[bytes] = []
    from_offset = 0
    base = log.snapshots.newest
    if base is not None and base.offset <= offset:
        values = values_of_snapshot(log, base)
        from_offset = base.offset
    for header, data in log.iter_batches(max(from_offset, log.log_start_offset), offset):
        if not header.is_control:
            values += [record.value or b"" for record in decode_records(data, 0, header)]
    return values


def values_of_snapshot(log: Log, snapshot_id: OffsetAndEpoch) -> list[bytes]:
    """What that snapshot, of a state machine that remembers every value, remembers."""
    return [
        record.value or b""
        for batch in open_snapshot(log._segments.disk, log.snapshots.path(snapshot_id), snapshot_id)
        if not batch.header.is_control
        for record in decode_records(batch.data, 0, batch.header)
    ]


async def log_with_snapshot(disk: Disk) -> tuple[Log, OffsetAndEpoch]:
    """A log of two values, both committed, and its snapshot of them."""
    log = open_log(disk)
    log.append_as_leader(batch(b"one", b"two"), 1)
    await log.sync()
    log.advance_high_watermark(2)
    return log, await take_snapshot(log, 2)


async def take_snapshot(log: Log, offset: int) -> OffsetAndEpoch:
    """Write a snapshot that ends there, and tell the log of it."""
    epoch = log.epochs.epoch_for_offset(offset - 1)
    assert epoch is not None
    snapshot_id = OffsetAndEpoch(offset, epoch)
    state, values = snapshot_state(log, offset), snapshot_values(log, offset)
    await write_snapshot(log._segments.disk, snapshot_id, state, values, log.directory)
    log.add_snapshot(snapshot_id)
    return snapshot_id


async def write_snapshot(
    disk: Disk, snapshot_id: OffsetAndEpoch, state: ControlState, values: Sequence[bytes], directory: str = DIRECTORY
) -> None:
    async with SnapshotWriter(disk, directory, snapshot_id, state, batch_bytes=200) as writer:
        await writer.append(NewRecord(value) for value in values)
        await writer.finish()


def log_of(*epochs: int, disk: SimulatedDisk | None = None, segment_bytes: int = 1 << 30) -> Log:
    """A log with one batch of two records for each epoch given, its values telling offset and epoch."""
    log = open_log(disk or SimulatedDisk(), segment_bytes=segment_bytes)
    for epoch in epochs:
        offset = log.end_offset
        log.append_as_leader(batch(f"{offset}@{epoch}".encode(), f"{offset + 1}@{epoch}".encode()), epoch)
    return log


def at(encoded: bytes, base_offset: int, epoch: int) -> bytes:
    buffer = bytearray(encoded)
    buffer[:8] = base_offset.to_bytes(8, "big")
    buffer[12:16] = epoch.to_bytes(4, "big")
    return bytes(buffer)


def stopped_disk(
    *values: bytes, segment_bytes: int = 1 << 30, synced: int | None = None
) -> tuple[SimulatedDisk, list[int]]:
    """A disk whose process was killed after it had appended one batch for each value; where the batches begin.

    The log had synced as many of them as `synced` says, None: all.
    """
    disk = SimulatedDisk()
    log = open_log(disk, segment_bytes=segment_bytes)
    positions = []
    for count, value in enumerate(values):
        if count == synced:
            log._durability.sync_now()
        positions.append(log.size_in_bytes)
        log.append_as_leader(batch(value), 1)
    if synced is None:
        log._durability.sync_now()
    disk.kill()
    return disk, positions


def rewrite(disk: SimulatedDisk, edit: Callable[[bytearray], object], path: str = FIRST_SEGMENT) -> None:
    data = bytearray(disk.read_bytes(path))
    edit(data)
    disk.replace_now(path, bytes(data))


def follows(log_bytes: bytes, encoded: bytes, offset: int, epoch: int) -> bytes:
    buffer = bytearray(encoded)
    plan_leader_append(buffer, offset, epoch, 1 << 20)
    return log_bytes + buffer


def disk_with_file(seed: int = 0, latency: float = 0.0) -> tuple[SimulatedDisk, SimulatedFile]:
    disk = SimulatedDisk(random.Random(seed), sync_latency=lambda: latency)
    disk.make_directory("/d")
    file = disk.open("/d/a", create=True)
    disk.sync_directory("/d")
    return disk, file


READS = frozenset({"forget_cached", "list_directory", "lock", "read_at", "read_bytes", "view"})


def change(number: int) -> CallPredicate:
    """The change of the disk with that number, the next one being 1.

    A crash before each change meets every state of the disk: no call that only reads makes another one.
    """
    numbers = itertools.count(1)
    return lambda operation, _path: operation not in READS and next(numbers) == number
