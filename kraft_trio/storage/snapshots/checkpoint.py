"""The bootstrap snapshot, `00000000000000000000-0000000000.checkpoint` (KIP-853), and snapshots that are in memory."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    Record,
    decode_records,
    encode_control_batch,
)
from kraft_trio.storage.batches.control_records import ControlRecord, SnapshotFooter
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import BOOTSTRAP_CHECKPOINT, checkpoint_name
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, check_snapshot, read_batches
from kraft_trio.storage.snapshots.snapshot_writer import CHECKPOINT_MODE, first_records


def encode_bootstrap_checkpoint(voters: VoterSet, kraft_version: int, timestamp_ms: int) -> bytes:
    """Encode the 0-0 snapshot: the initial voters of a quorum.

    Times are milliseconds since 1970.  At kraft.version 0 voters are static and the snapshot does not name them.
    """
    records = first_records(ControlState(timestamp_ms, voters if kraft_version else None, kraft_version))
    first = encode_control_batch(records, timestamp_ms=timestamp_ms)
    return first + encode_control_batch([SnapshotFooter()], timestamp_ms=timestamp_ms, base_offset=len(records))


def write_bootstrap_checkpoint(
    disk: Disk, directory: str, voters: VoterSet, kraft_version: int, timestamp_ms: int
) -> None:
    """Write the 0-0 snapshot into a partition's directory, durably; blocks for the fsync."""
    content = encode_bootstrap_checkpoint(voters, kraft_version, timestamp_ms)
    disk.replace_now(join(directory, BOOTSTRAP_CHECKPOINT), content, mode=CHECKPOINT_MODE)


def read_checkpoint(
    data: bytes, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> Iterator[ControlRecord | Record]:
    """Yield the records of a snapshot in order: known control records, and the application's records.

    Raises ProtocolError at the first damaged batch, and at the end of a snapshot without header or footer.
    """
    for batch in read_batches(_Memory(data)):
        if batch.header.is_control:
            yield from batch.control_records
        else:
            yield from decode_records(batch.data, 0, batch.header, max_decompressed_bytes)


@attrs.frozen
class _Memory:
    """See `SnapshotSource`."""

    data: bytes

    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]


def read_checkpoint_voters(disk: Disk, directory: str, snapshot_id: OffsetAndEpoch) -> ControlState:
    """Check a whole snapshot of a partition's directory, and return its control state.

    Raises CorruptSnapshotError, naming the file and the reason; OSError.
    """
    return check_snapshot(disk, join(directory, checkpoint_name(snapshot_id)), snapshot_id).control_state
