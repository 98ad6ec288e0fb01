"""One batch of a log, as the world knows it, and how it is read from the bytes that a node writes."""

from __future__ import annotations

import hashlib
from typing import Final

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import check_crc, decode_control_batch
from kraft_trio.storage.batches.batch_header import BatchHeader
from kraft_trio.storage.batches.control_records import KRaftVersion, VotersRecord
from kraft_trio.storage.disk.disk import Buffer

IDENTITY_BYTES: Final = 21
"""Length of the header fields that identify a batch: base offset, length, epoch, magic, CRC."""

CHAIN_START: Final = bytes(16)
"""The chain before the first entry of a log."""


@attrs.frozen
class Entry:
    """One batch of a log."""

    base_offset: int
    next_offset: int
    """End of its offsets, exclusive."""
    epoch: int
    is_control: bool
    chain: bytes
    """Digest of this batch and of all before it.  Two logs with equal chains are equal up to here."""
    path: str
    """The segment that holds it; empty if a snapshot has replaced this part of the log."""
    position: int
    """Where it begins in that file, in bytes."""
    size: int
    identity: bytes
    """The first IDENTITY_BYTES of its header."""
    voters: VoterSet | None = None
    """The set of its VotersRecord, if it has one."""
    target: tuple[ReplicaKey, ...] = ()
    """The target of a reassignment that its VotersRecord names."""
    kraft_version: int | None = None
    """The version of its KRaftVersion record, if it has one."""

    def covered(self) -> Entry:
        """The same entry after a snapshot has replaced it."""
        return attrs.evolve(self, path="", position=0)


def entry_of(header: BatchHeader, batch: bytes, chain_before: bytes, path: str, position: int) -> Entry:
    """The entry of one whole batch at `position` of the segment at `path`."""
    voters: VoterSet | None = None
    target: tuple[ReplicaKey, ...] = ()
    kraft_version: int | None = None
    if header.is_control:
        for _, record in decode_control_batch(batch, 0, header):
            if isinstance(record, VotersRecord):
                voters, target = record.voters, record.target
            elif isinstance(record, KRaftVersion):
                kraft_version = record.version
    return Entry(
        base_offset=header.base_offset,
        next_offset=header.next_offset,
        epoch=header.leader_epoch,
        is_control=header.is_control,
        chain=hashlib.blake2b(chain_before + batch, digest_size=16).digest(),
        path=path,
        position=position,
        size=header.size_in_bytes,
        identity=batch[:IDENTITY_BYTES],
        voters=voters,
        target=target,
        kraft_version=kraft_version,
    )


def is_whole(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the checksum of the batch at `position` is right."""
    try:
        check_crc(buffer, position, header)
    except ProtocolError:
        return False
    return True
