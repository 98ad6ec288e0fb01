"""The facts about one replica, whatever its own code believes: its log, entry by entry, and what its device holds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Final, Protocol

import attrs

from kraft_trio.errors import StorageError
from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import ElectionState, Leader
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.facts.committed import NOTHING, CommittedLog, CommittedRecords, digest_after
from kraft_trio.simulation.facts.device import Content, Device
from kraft_trio.simulation.facts.entry import CHAIN_START, Entry, entry_of, is_whole
from kraft_trio.storage.batches.batch import Record, iter_headers, peek_header
from kraft_trio.storage.batches.batch_header import BatchHeader
from kraft_trio.storage.directory.quorum_state import decode_quorum_state
from kraft_trio.storage.disk.disk import Buffer, base_name, join
from kraft_trio.storage.disk.partition_files import LOG, QUORUM_STATE, checkpoint_ids, checkpoint_name

_base_offset_of: Final = attrgetter("base_offset")
_next_offset_of: Final = attrgetter("next_offset")


class Beliefs(Protocol):
    """What the node of a running process believes.  Invariants compare it with the facts."""

    @property
    def log_start_offset(self) -> int:
        """Where its log begins (inclusive)."""
        ...

    @property
    def voters(self) -> VoterSet:
        """The voter set that it counts by."""
        ...

    @property
    def voters_offset(self) -> int | None:
        """The offset of the record that brought this set; None if it comes from the configuration."""
        ...

    @property
    def target(self) -> tuple[ReplicaKey, ...]:
        """The target of the reassignment under way, as far as it knows."""
        ...

    @property
    def old_copies(self) -> Collection[ReplicaKey]:
        """The voters of which its process has said that an old copy of their directory runs."""
        ...

    def knows_corrupt(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether it has noticed that this snapshot is corrupt."""
        ...

    def keeps_up(self, key: ReplicaKey) -> bool:
        """Whether the leader believes that the replica has held its whole log within the last fetch timeout."""
        ...

    def synced_end_of(self, voter: Voter) -> int | None:
        """The end (exclusive) up to which the leader believes the voter's log to be synced; None if it does not
        know."""
        ...


def election_state_on(content: Content, partition_path: str) -> ElectionState | None:
    """quorum-state as a disk holds it; None if it is missing or cannot be read."""
    path = join(partition_path, QUORUM_STATE)
    data = content.durable_bytes(path)
    try:
        return None if data is None else decode_quorum_state(path, data)
    except StorageError:
        return None


@attrs.define(eq=False)
class Replica:
    """One incarnation: an id with the directory id of one disk.  It outlives the processes that run it."""

    key: ReplicaKey
    device: Device
    committed: CommittedLog
    records: CommittedRecords
    entries: list[Entry] = attrs.field(factory=list)
    """The log as its process sees it, or saw it last.  If it begins above 0, the committed entries that a snapshot has
    replaced come first."""
    view: QuorumView | None = None
    """The last view that its process has published; None before the first one."""
    high_watermark: int | None = None
    """The high watermark as its process knows it (exclusive)."""
    synced_end: int = 0
    """The end (exclusive) up to which its process believes the log to be durable."""
    applied_end: int = 0
    """The end (exclusive) of what the present process has given to its state machine."""
    applied_digest: bytes = NOTHING
    """Digest of the values that its state machine has been given."""
    beliefs: Beliefs | None = None
    """What its node believes; None while no process runs."""

    @property
    def log_end(self) -> int:
        """Exclusive."""
        return self.entries[-1].next_offset if self.entries else 0

    @property
    def is_running(self) -> bool:
        return self.beliefs is not None

    @property
    def is_leader(self) -> bool:
        """Whether the last view that its process has published says that it leads."""
        return self.view is not None and isinstance(self.view.role, Leader)

    @property
    def has_committed_in_epoch(self) -> bool:
        """Whether the last committed entry that it knows of is of its present epoch."""
        last = None if self.high_watermark is None else self.entry_ending_at(self.high_watermark)
        return last is not None and self.view is not None and last.epoch == self.view.epoch

    def entry_ending_at(self, next_offset: int) -> Entry | None:
        """The entry whose offsets end there (exclusive)."""
        entries = self.entries
        if entries and entries[-1].next_offset == next_offset:
            return entries[-1]
        index = bisect_left(entries, next_offset, key=_next_offset_of)
        found = entries[index] if index < len(entries) else None
        return found if found is not None and found.next_offset == next_offset else None

    def entry_at(self, offset: int) -> Entry | None:
        """The entry that holds that offset."""
        index = bisect_left(self.entries, offset + 1, key=_next_offset_of)
        return self.entries[index] if index < len(self.entries) and offset >= 0 else None

    def entries_from(self, offset: int) -> Sequence[Entry]:
        """The entries that begin there or later."""
        entries = self.entries
        if entries and entries[-1].next_offset <= offset:
            return []
        return entries[bisect_left(entries, offset, key=_base_offset_of) :]

    # What the device holds

    def has_durably(self, entry: Entry) -> bool:
        """Whether that entry of its log would survive a crash that loses everything unsynced.

        The durable content of a file is the file as it was after some change.  An entry in its place therefore has
        everything before it.
        """
        if not entry.path:
            return self._has_snapshot_durably(entry.next_offset)
        content = self.device.content.durable_slice(entry.path, entry.position, entry.size)
        return content is not None and len(content) == entry.size and content.startswith(entry.identity)

    def _has_snapshot_durably(self, end_offset: int) -> bool:
        content, directory = self.device.content, self.device.partition_path
        ids = (id for id in checkpoint_ids(content.peek_names(directory)) if id.offset >= end_offset)
        return any(content.durable_size(join(directory, checkpoint_name(id))) for id in ids)

    def durable_end(self) -> int:
        """End (exclusive) of the log that would survive a crash that loses everything unsynced."""
        for entry in reversed(self.entries):
            if self.has_durably(entry):
                return entry.next_offset
        return 0

    def durable_election_state(self) -> ElectionState | None:
        """quorum-state as the device holds it; None if it is missing or cannot be read."""
        return election_state_on(self.device.content, self.device.partition_path)

    # What its process does

    def load(self) -> None:
        """Read the log from the files as a new process has just opened them."""
        known = {(entry.path, entry.position): entry for entry in self.entries} if self.device.is_damaged else {}
        segments = list(self._segments())
        self.entries = self._covered(int(base_name(segments[0][0]).removesuffix(LOG))) if segments else []
        for path, content in segments:
            for position, header in iter_headers(content):
                entry = self._next_entry(header, content, position, path, position)
                before = known.get((path, position))
                if before is not None and before.identity == entry.identity and not is_whole(content, position, header):
                    # The medium damaged it after it was written.  Its CRC shows that, but nobody has read it yet.
                    entry = attrs.evolve(entry, chain=before.chain)
                self.entries.append(entry)

    def append(self, buffer: Buffer, count: int, path: str, position: int) -> Sequence[Entry]:
        """Take in the first `count` batches of the buffer; returns their entries."""
        start = 0
        for _ in range(count):
            header = peek_header(buffer, start)
            self.entries.append(self._next_entry(header, buffer, start, path, position))
            start += header.size_in_bytes
            position += header.size_in_bytes
        return self.entries[-count:]

    def truncate(self, end_offset: int) -> Sequence[Entry]:
        """Drop the entries from that offset on; returns them."""
        removed = list(self.entries_from(end_offset))
        if removed:
            del self.entries[-len(removed) :]
        return removed

    def replace(self, end_offset: int) -> Sequence[Entry]:
        """Let a snapshot that ends there replace the log; returns the dropped entries that were not committed."""
        before, self.entries = self.entries, self._covered(end_offset)
        return [entry for entry in before if entry.next_offset > end_offset or not self._has(entry)]

    def trim(self, start_offset: int) -> None:
        """Let the log begin there: a snapshot has replaced what is before."""
        for index in range(bisect_right(self.entries, start_offset, key=_next_offset_of) - 1, -1, -1):
            if not self.entries[index].path:
                break
            self.entries[index] = self.entries[index].covered()

    def reset_applied(self) -> None:
        """A new process has a new state machine."""
        self.applied_end, self.applied_digest = 0, NOTHING

    def apply(self, records: Sequence[Record]) -> None:
        """Take in the records that its state machine has just been given."""
        for record in records:
            self.applied_digest = digest_after(self.applied_digest, record.value or b"")
        self.applied_end = records[-1].offset + 1

    def load_state(self, end_offset: int) -> None:
        """Its state machine gets a snapshot, which replaces every record before `end_offset`."""
        self.applied_end = self.records.end_of_values(end_offset)
        self.applied_digest = self.records.digest_below(end_offset)

    def _has(self, entry: Entry) -> bool:
        held = self.entry_ending_at(entry.next_offset)
        return held is not None and held.chain == entry.chain

    def _covered(self, end_offset: int) -> list[Entry]:
        """The committed entries below that offset, as entries that a snapshot has replaced."""
        return self.committed.covered_below(end_offset) if end_offset else []

    def _segments(self) -> Iterator[tuple[str, bytes]]:
        device = self.device
        for name in device.content.peek_names(device.partition_path):
            if name.endswith(LOG):
                path = join(device.partition_path, name)
                content = device.content.peek(path)
                if content is not None:
                    yield path, content

    def _next_entry(self, header: BatchHeader, buffer: Buffer, start: int, path: str, position: int) -> Entry:
        batch = bytes(memoryview(buffer)[start : start + header.size_in_bytes])
        return entry_of(header, batch, self.entries[-1].chain if self.entries else CHAIN_START, path, position)
