"""What is committed: the entries below the highest high watermark that any leader has reached."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.storage.batches.batch import check_crc, decode_records, peek_header

_next_offset_of: Final = attrgetter("next_offset")


@attrs.define
class LeaderCommits:
    """How far the leader of one epoch advanced the high watermark.  Offsets are exclusive."""

    first: int
    """The high watermark when it became known in that epoch."""
    last: int


class CommittedLog:
    """Grows with the leaders' high watermarks, and remembers which leader committed how much."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """Each as in the log of the leader that committed it first."""
        self._covered: list[Entry] = []
        """The same entries after a snapshot has replaced them."""
        self.voter_sets: list[Entry] = []
        """The entries with a VotersRecord."""
        self._epochs: list[int] = []
        self._commits: dict[int, LeaderCommits] = {}

    @property
    def end(self) -> int:
        """Exclusive."""
        return self.entries[-1].next_offset if self.entries else 0

    def advance(self, entries: Iterable[Entry], epoch: int, high_watermark: int) -> None:
        """The leader of that epoch has advanced its high watermark; `entries` are those of its log from `end` on."""
        commits = self._commits.get(epoch)
        if commits is None:
            self._commits[epoch] = LeaderCommits(high_watermark, high_watermark)
            self._epochs.insert(bisect_left(self._epochs, epoch), epoch)
        else:
            commits.last = max(commits.last, high_watermark)
        for entry in entries:
            if entry.next_offset > high_watermark:
                break
            self.entries.append(entry)
            self._covered.append(entry.covered())
            if entry.voters is not None:
                self.voter_sets.append(entry)

    def covered_below(self, end_offset: int) -> list[Entry]:
        """The committed entries that end at that offset or before, as entries that a snapshot has replaced."""
        return self._covered[: bisect_right(self.entries, end_offset, key=_next_offset_of)]

    def entry_ending_at(self, next_offset: int) -> Entry | None:
        """The committed entry whose offsets end there (exclusive)."""
        index = bisect_left(self.entries, next_offset, key=_next_offset_of)
        found = self.entries[index] if index < len(self.entries) else None
        return found if found is not None and found.next_offset == next_offset else None

    def last_entry_below(self, end_offset: int) -> Entry | None:
        """The last committed entry that ends at that offset or before."""
        index = bisect_right(self.entries, end_offset, key=_next_offset_of)
        return self.entries[index - 1] if index else None

    def includes(self, entry: Entry) -> bool:
        """Whether this entry, with everything before it, is committed."""
        committed = self.entry_ending_at(entry.next_offset)
        return committed is not None and committed.chain == entry.chain

    def of_epoch(self, epoch: int) -> LeaderCommits | None:
        """What the leader of that epoch has committed; None if nothing yet."""
        return self._commits.get(epoch)

    def end_before_epoch(self, epoch: int) -> int:
        """The highest high watermark of all leaders of lower epochs; 0 if there was none."""
        return max((self._commits[lower].last for lower in self.epochs_below(epoch)), default=0)

    def epochs_below(self, epoch: int) -> Sequence[int]:
        """The lower epochs in which something was committed, ascending."""
        return self._epochs[: bisect_left(self._epochs, epoch)]

    def epochs_above(self, epoch: int) -> Sequence[int]:
        """The higher epochs in which something was committed, ascending."""
        return self._epochs[bisect_right(self._epochs, epoch) :]


NOTHING: Final = bytes(16)
"""The digest of no values."""


def digest_after(digest: bytes, value: bytes) -> bytes:
    """The digest of the values that `digest` represents, followed by one more.

    Two sequences have equal digests only if they have equal values in the same order.
    """
    return hashlib.blake2b(digest + value, digest_size=len(NOTHING)).digest()


class CommittedRecords:
    """Grows at its end only: what is committed stays.  The protocol's own records leave gaps in the offsets."""

    def __init__(self) -> None:
        self.end = 0
        """Exclusive.  Everything below it is committed and known here."""
        self._offsets: list[int] = []
        self._values: list[bytes] = []
        self._digests: list[bytes] = []
        """For each value the digest of it and of all before it."""
        self._by_value: dict[bytes, list[int]] = {}

    def append(self, values: Sequence[bytes], base_offset: int) -> None:
        """Take in values at consecutive offsets.  `base_offset` is that of the first one, `end` or higher."""
        assert base_offset >= self.end, "what is committed grows at its end"
        for offset, value in enumerate(values, base_offset):
            self._offsets.append(offset)
            self._values.append(value)
            self._digests.append(digest_after(self._digests[-1] if self._digests else NOTHING, value))
            self._by_value.setdefault(value, []).append(offset)
        self.end = base_offset + len(values)

    def advance(self, end: int) -> None:
        """From here to `end` (exclusive) only records of the protocol itself are committed."""
        self.end = max(self.end, end)

    def follow(self, entries: Iterable[Entry], high_watermark: int, read: Callable[[str], bytes | None]) -> None:
        """Take in the entries of a replica's log, from `end` on, that lie below `high_watermark` (exclusive).

        `read` returns the content of a segment.  Stops before a batch that the medium has damaged: another replica will
        have it.
        """
        contents: dict[str, bytes] = {}
        for entry in entries:
            if entry.next_offset > high_watermark:
                return
            if not entry.is_control:
                if entry.path not in contents:
                    contents[entry.path] = read(entry.path) or b""
                values = _values(entry, contents[entry.path])
                if values is None:
                    return
                self.append(values, entry.base_offset)
            self.advance(entry.next_offset)

    def value_at(self, offset: int) -> bytes | None:
        """The value at that offset; None if no committed value is there."""
        index = bisect_left(self._offsets, offset)
        return self._values[index] if index < len(self._offsets) and self._offsets[index] == offset else None

    def offsets_of(self, value: bytes) -> Sequence[int]:
        """All offsets at which it is committed, ascending."""
        return self._by_value.get(value, ())

    def end_of_values(self, end: int) -> int:
        """The end (exclusive) of the last value below `end` (exclusive); 0 if there is no value."""
        index = bisect_left(self._offsets, end)
        return self._offsets[index - 1] + 1 if index else 0

    def digest_below(self, end: int) -> bytes:
        """The digest of the values below `end` (exclusive)."""
        index = bisect_left(self._offsets, end)
        return self._digests[index - 1] if index else NOTHING

    def between(self, start: int, end: int) -> list[tuple[int, bytes]]:
        """Offsets and values from `start` (inclusive) to `end` (exclusive)."""
        chosen = slice(bisect_left(self._offsets, start), bisect_left(self._offsets, end))
        return list(zip(self._offsets[chosen], self._values[chosen], strict=True))


def _values(entry: Entry, content: bytes) -> list[bytes] | None:
    """The values of an entry in its segment; None if the medium has damaged it."""
    try:
        header = peek_header(content, entry.position)
        check_crc(content, entry.position, header)
        return [record.value or b"" for record in decode_records(content, entry.position, header)]
    except ProtocolError:
        return None
