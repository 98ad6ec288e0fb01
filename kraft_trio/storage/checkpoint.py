"""Snapshot files, `<end offset>-<epoch>.checkpoint` (KIP-630), and the bootstrap snapshot 0-0 (KIP-853).

A snapshot begins with a control batch of SnapshotHeader, KRaftVersion and Voters (the last two from kraft.version 1 on)
and ends with one of SnapshotFooter.  Offsets in it restart at 0; its batches carry the epoch of its id.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kraft_trio.errors import ProtocolError, StorageError
from kraft_trio.protocol.control_records import (
    ControlRecord,
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
)
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batch import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    Record,
    check_crc,
    decode_control_batch,
    decode_records,
    encode_control_batch,
    iter_headers,
)
from kraft_trio.storage.disk import Disk, join
from kraft_trio.storage.partition_files import BOOTSTRAP_CHECKPOINT, checkpoint_name

CHECKPOINT_MODE = 0o400
"""A snapshot never changes once it is there."""


@attrs.frozen
class CheckpointVoters:
    """What a snapshot says of the quorum itself: its voters, None at kraft.version 0, and the kraft.version."""

    voters: VoterSet | None
    kraft_version: int


def encode_bootstrap_checkpoint(
    voters: VoterSet, kraft_version: int, timestamp_ms: int, footer_timestamp_ms: int | None = None
) -> bytes:
    """The 0-0 snapshot: the voters a quorum begins with.

    Times are milliseconds since 1970.  At kraft.version 0 voters are static and the snapshot does not name them.
    """
    records: list[ControlRecord] = [SnapshotHeader(timestamp_ms)]
    if kraft_version > 0:
        records += [KRaftVersion(kraft_version), VotersRecord(voters)]
    first = encode_control_batch(records, timestamp_ms=timestamp_ms)
    footer = encode_control_batch(
        [SnapshotFooter()],
        timestamp_ms=timestamp_ms if footer_timestamp_ms is None else footer_timestamp_ms,
        base_offset=len(records),
    )
    return first + footer


def write_bootstrap_checkpoint(
    disk: Disk, directory: str, voters: VoterSet, kraft_version: int, timestamp_ms: int
) -> None:
    """Write the 0-0 snapshot into a partition's directory, durably; blocks for the fsync."""
    content = encode_bootstrap_checkpoint(voters, kraft_version, timestamp_ms)
    disk.replace_now(join(directory, BOOTSTRAP_CHECKPOINT), content, mode=CHECKPOINT_MODE)


def read_checkpoint(
    data: bytes, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> Iterator[ControlRecord | Record]:
    """The records of a snapshot in order: control records that are known here, and the application's.

    Raises ProtocolError at the first batch that is damaged, and at the end of a snapshot that lacks its header or its
    footer, as one does that was cut.
    """
    seen: ControlRecord | Record | None = None
    next_offset = 0
    for position, header in iter_headers(data):
        _check_place(header, position, next_offset)
        check_crc(data, position, header)
        records: Iterator[ControlRecord | Record]
        if header.is_control:
            records = (record for _, record in decode_control_batch(data, position, header))
        else:
            records = iter(decode_records(data, position, header, max_decompressed_bytes))
        for record in records:
            if isinstance(seen, SnapshotFooter):
                raise ProtocolError(f"batch at position {position}: it follows the snapshot's footer")
            if (seen is None) != isinstance(record, SnapshotHeader):
                raise ProtocolError(f"batch at position {position}: a snapshot has one header, as its first record")
            seen = record
            yield record
        next_offset = header.next_offset
    if not isinstance(seen, SnapshotFooter):
        raise ProtocolError(f"the snapshot ends at position {len(data)} without its footer")


def _check_place(header: BatchHeader, position: int, next_offset: int) -> None:
    if header.base_offset != next_offset:
        raise ProtocolError(f"batch at position {position}: base offset {header.base_offset}, expected {next_offset}")


def read_checkpoint_voters(disk: Disk, directory: str, snapshot_id: OffsetAndEpoch) -> CheckpointVoters:
    """Read a whole snapshot of a partition's directory for its voters and kraft.version.

    Raises StorageError, naming the file and what is wrong with it.
    """
    path = join(directory, checkpoint_name(snapshot_id))
    voters = None
    kraft_version = 0
    try:
        for record in read_checkpoint(disk.read_bytes(path)):
            match record:
                case VotersRecord():
                    voters = record.voters
                case KRaftVersion():
                    kraft_version = record.version
    except ProtocolError as error:
        raise StorageError(f"{path}: {error}") from error
    return CheckpointVoters(voters, kraft_version)
