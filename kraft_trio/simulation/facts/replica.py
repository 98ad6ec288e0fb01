"""What is true of one replica, whatever its own code believes: its log, entry by entry, and what its device holds."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from kraft_trio.errors import ProtocolError, StorageError
from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import ElectionState, Leader
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.state_machine import NOTHING, digest_after
from kraft_trio.storage.batch import Record, check_crc, decode_control_batch, iter_headers, peek_header
from kraft_trio.storage.batch_header import BatchHeader
from kraft_trio.storage.control_records import KRaftVersion, VotersRecord
from kraft_trio.storage.disk import Buffer, base_name, join
from kraft_trio.storage.partition_files import LOG, QUORUM_STATE, checkpoint_ids, checkpoint_name
from kraft_trio.storage.quorum_state import decode_quorum_state

if TYPE_CHECKING:
    from kraft_trio.node import Node
    from kraft_trio.simulation.machine import Machine

IDENTITY_BYTES: Final = 21
"""Of a batch's header, what tells it from any other at its place: base offset, length, epoch, magic, CRC."""

CHAIN_START: Final = bytes(16)


@attrs.frozen
class Entry:
    """One batch of a log."""

    base_offset: int
    next_offset: int
    """Exclusive end of its offsets."""
    epoch: int
    is_control: bool
    chain: bytes
    """Digest of this batch and of all before it: equal exactly for equal logs up to here."""
    path: str
    """Of its segment; empty where the log begins behind it and a snapshot covers it."""
    position: int
    """Where in that file it begins, in bytes."""
    size: int
    identity: bytes
    """The first bytes of its header, CRC included."""
    voters: VoterSet | None = None
    """The set of the VotersRecord in it."""
    kraft_version: int | None = None
    """The version of the KRaftVersion record in it."""

    def covered(self) -> Entry:
        """The same, where a snapshot stands for it."""
        return attrs.evolve(self, path="", position=0)


@attrs.define(eq=False)
class Replica:
    """One incarnation: an id with the directory id of one disk.  Outlives the processes that run it."""

    key: ReplicaKey
    machine: Machine
    entries: list[Entry] = attrs.field(factory=list)
    """The log as its process sees it, or saw it last; where it begins above 0, with the committed entries before that,
    which a snapshot stands for."""
    view: QuorumView | None = None
    """As last published by its process; None while that has published nothing."""
    high_watermark: int | None = None
    """As its process knows it (exclusive)."""
    synced_end: int = 0
    """What its process believes to be durable (exclusive)."""
    applied_end: int = 0
    """Exclusive end of what its state machine has been given by the present process."""
    applied_digest: bytes = NOTHING
    """Digest of the values that its state machine has been given."""
    node: Node | None = None
    """While its process runs."""

    @property
    def log_end(self) -> int:
        """Exclusive."""
        return self.entries[-1].next_offset if self.entries else 0

    @property
    def is_leader(self) -> bool:
        """Whether its process has published that it leads, last."""
        return self.view is not None and isinstance(self.view.role, Leader)

    @property
    def has_committed_in_epoch(self) -> bool:
        """Whether its high watermark stands behind a record of its present epoch."""
        last = None if self.high_watermark is None else self.entry_ending_at(self.high_watermark)
        return last is not None and self.view is not None and last.epoch == self.view.epoch

    @property
    def is_running(self) -> bool:
        return self.node is not None

    def entry_ending_at(self, next_offset: int) -> Entry | None:
        """The entry whose offsets end there (exclusive)."""
        index = bisect_left(self.entries, next_offset, key=_next_offset_of)
        found = self.entries[index] if index < len(self.entries) else None
        return found if found is not None and found.next_offset == next_offset else None

    def entry_at(self, offset: int) -> Entry | None:
        """The entry that holds that offset."""
        index = bisect_left(self.entries, offset + 1, key=_next_offset_of)
        return self.entries[index] if index < len(self.entries) and offset >= 0 else None

    def entries_from(self, offset: int) -> Sequence[Entry]:
        """The entries that begin there or later."""
        return self.entries[bisect_left(self.entries, offset, key=_base_offset_of) :]

    # What the device holds

    def has_durably(self, entry: Entry) -> bool:
        """Whether that entry of its log would be there after a crash that loses everything unsynced.

        A file's durable content is the file as it was after some change, so an entry in its place has all before it.
        """
        if not entry.path:
            return self._has_snapshot_durably(entry.next_offset)
        held = self.machine.disk.durable_slice(entry.path, entry.position, IDENTITY_BYTES)
        if held != entry.identity:
            return False
        size = self.machine.disk.durable_size(entry.path)
        return size is not None and size >= entry.position + entry.size

    def _has_snapshot_durably(self, end_offset: int) -> bool:
        """Whether a snapshot that ends there or later would be there after such a crash."""
        disk, directory = self.machine.disk, self.machine.partition_path
        ids = (id for id in checkpoint_ids(disk.peek_names(directory)) if id.offset >= end_offset)
        return any(disk.durable_size(join(directory, checkpoint_name(id))) for id in ids)

    def durable_end(self) -> int:
        """Exclusive end of the log that would be there after a crash that loses everything unsynced."""
        for entry in reversed(self.entries):
            if self.has_durably(entry):
                return entry.next_offset
        return 0

    def durable_election_state(self) -> ElectionState | None:
        """quorum-state as the device holds it; None where there is none, or none that can be read."""
        path = join(self.machine.partition_path, QUORUM_STATE)
        data = self.machine.disk.durable_bytes(path)
        try:
            return None if data is None else decode_quorum_state(path, data)
        except StorageError:
            return None

    # Its process tells

    def load(self) -> None:
        """Read the log from the files as its process has just opened them."""
        known = {(entry.path, entry.position): entry for entry in self.entries} if self.machine.has_bad_disk else {}
        segments = list(self._segments())
        self.entries = self._covered(int(base_name(segments[0][0]).removesuffix(LOG))) if segments else []
        for path, content in segments:
            for position, header in iter_headers(content):
                entry = self._entry(header, content, path, position)
                before = known.get((path, position))
                if (
                    before is not None
                    and before.identity == entry.identity
                    and not _is_whole(content, position, header)
                ):
                    # Damaged since it was written, which its CRC shows and which nobody has read yet.
                    entry = attrs.evolve(entry, chain=before.chain)
                self.entries.append(entry)

    def append(self, buffer: Buffer, count: int, path: str, position: int) -> Sequence[Entry]:
        """Take in the `count` batches at the beginning of the buffer; the new entries."""
        batch_position = 0
        for _ in range(count):
            header = peek_header(buffer, batch_position)
            entry = self._entry(header, buffer, path, position, batch_position)
            self.entries.append(entry)
            batch_position += header.size_in_bytes
            position += header.size_in_bytes
        return self.entries[-count:]

    def truncate(self, end_offset: int) -> Sequence[Entry]:
        """Drop the entries from that offset on; the removed ones."""
        removed = list(self.entries_from(end_offset))
        if removed:
            del self.entries[-len(removed) :]
        return removed

    def replace(self, end_offset: int) -> Sequence[Entry]:
        """A snapshot that ends there has taken the log's place; the entries that are gone and were not committed."""
        before, self.entries = self.entries, self._covered(end_offset)
        return [entry for entry in before if entry.next_offset > end_offset or not self._has(entry)]

    def trim(self, start_offset: int) -> None:
        """The log now begins there: a snapshot stands for what is before."""
        for index in range(bisect_right(self.entries, start_offset, key=_next_offset_of) - 1, -1, -1):
            if not self.entries[index].path:
                break
            self.entries[index] = self.entries[index].covered()

    def _has(self, entry: Entry) -> bool:
        held = self.entry_ending_at(entry.next_offset)
        return held is not None and held.chain == entry.chain

    def _covered(self, end_offset: int) -> list[Entry]:
        """What is committed below that offset, as it stands for the log before a snapshot's end."""
        if end_offset == 0:
            return []
        return self.machine.cluster.checker.evidence.committed.covered_below(end_offset)

    def reset_applied(self) -> None:
        """A new process: its state machine begins with nothing."""
        self.applied_end, self.applied_digest = 0, NOTHING

    def apply(self, records: Sequence[Record]) -> None:
        """Take in what its state machine has just been given."""
        for record in records:
            self.applied_digest = digest_after(self.applied_digest, record.value or b"")
        self.applied_end = records[-1].offset + 1

    def load_state(self, end_offset: int) -> None:
        """Its state machine is given a snapshot that ends there: it is as if it had been given what is before."""
        records = self.machine.cluster.checker.evidence.records
        self.applied_end = records.end_of_values(end_offset)
        self.applied_digest = records.digest_below(end_offset)

    def _segments(self) -> Iterator[tuple[str, bytes]]:
        disk, directory = self.machine.disk, self.machine.partition_path
        for name in disk.peek_names(directory):
            if name.endswith(LOG):
                path = join(directory, name)
                content = disk.peek(path)
                if content is not None:
                    yield path, content

    def _entry(
        self, header: BatchHeader, buffer: Buffer, path: str, position: int, buffer_position: int | None = None
    ) -> Entry:
        start = position if buffer_position is None else buffer_position
        batch = bytes(memoryview(buffer)[start : start + header.size_in_bytes])
        before = self.entries[-1].chain if self.entries else CHAIN_START
        voters: VoterSet | None = None
        kraft_version: int | None = None
        if header.is_control:
            for _, record in decode_control_batch(batch, 0, header):
                if isinstance(record, VotersRecord):
                    voters = record.voters
                elif isinstance(record, KRaftVersion):
                    kraft_version = record.version
        return Entry(
            base_offset=header.base_offset,
            next_offset=header.next_offset,
            epoch=header.leader_epoch,
            is_control=header.is_control,
            chain=hashlib.blake2b(before + batch, digest_size=16).digest(),
            path=path,
            position=position,
            size=header.size_in_bytes,
            identity=batch[:IDENTITY_BYTES],
            voters=voters,
            kraft_version=kraft_version,
        )


def _is_whole(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    try:
        check_crc(buffer, position, header)
    except ProtocolError:
        return False
    return True


def _next_offset_of(entry: Entry) -> int:
    return entry.next_offset


def _base_offset_of(entry: Entry) -> int:
    return entry.base_offset
