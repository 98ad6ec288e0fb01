"""The values that are committed, by offset: what every client's history is held against."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft_trio.errors import ProtocolError
from kraft_trio.simulation.state_machine import NOTHING, digest_after
from kraft_trio.storage.batch import check_crc, decode_records, peek_header

if TYPE_CHECKING:
    from kraft_trio.simulation.facts.replica import Entry, Replica


class CommittedRecords:
    """Grows at its end only: what is committed stays.  The protocol's own records leave gaps in the offsets."""

    def __init__(self) -> None:
        self.end = 0
        """Exclusive: everything below it is committed, and known here."""
        self._offsets: list[int] = []
        self._values: list[bytes] = []
        self._digests: list[bytes] = []
        """Of the values up to each, itself included."""
        self._by_value: dict[bytes, list[int]] = {}

    def append(self, values: Sequence[bytes], base_offset: int) -> None:
        """Take in values that stand next to each other, the first of them at `base_offset`: `end`, or higher."""
        assert base_offset >= self.end, "what is committed grows at its end"
        for offset, value in enumerate(values, base_offset):
            self._offsets.append(offset)
            self._values.append(value)
            self._digests.append(digest_after(self._digests[-1] if self._digests else NOTHING, value))
            self._by_value.setdefault(value, []).append(offset)
        self.end = base_offset + len(values)

    def advance(self, end: int) -> None:
        """Nothing but the protocol's own records is committed from here to `end` (exclusive)."""
        self.end = max(self.end, end)

    def follow(self, replica: Replica, high_watermark: int) -> None:
        """Take in what this replica's log has below `high_watermark` (exclusive) and is not known here yet.

        Stops before a batch that its disk has damaged: another replica will have it.
        """
        contents: dict[str, bytes] = {}
        for entry in replica.entries_from(self.end):
            if entry.next_offset > high_watermark or not self._take(entry, replica, contents):
                return

    def value_at(self, offset: int) -> bytes | None:
        """The value there; None where there is none, or nothing is committed yet."""
        index = bisect_left(self._offsets, offset)
        return self._values[index] if index < len(self._offsets) and self._offsets[index] == offset else None

    def offsets_of(self, value: bytes) -> Sequence[int]:
        """Everywhere it stands, ascending."""
        return self._by_value.get(value, ())

    def end_of_values(self, end: int) -> int:
        """Exclusive end of the last value below `end` (exclusive); 0 where there is none."""
        index = bisect_left(self._offsets, end)
        return self._offsets[index - 1] + 1 if index else 0

    def digest_below(self, end: int) -> bytes:
        """Of the values below `end` (exclusive), as `digest_after` makes it."""
        index = bisect_left(self._offsets, end)
        return self._digests[index - 1] if index else NOTHING

    def between(self, start: int, end: int) -> list[tuple[int, bytes]]:
        """Offsets and values from `start` (inclusive) to `end` (exclusive)."""
        chosen = slice(bisect_left(self._offsets, start), bisect_left(self._offsets, end))
        return list(zip(self._offsets[chosen], self._values[chosen], strict=True))

    def _take(self, entry: Entry, replica: Replica, contents: dict[str, bytes]) -> bool:
        if entry.is_control:
            self.advance(entry.next_offset)
            return True
        if entry.path not in contents:
            contents[entry.path] = replica.machine.disk.peek(entry.path) or b""
        content = contents[entry.path]
        try:
            header = peek_header(content, entry.position)
            check_crc(content, entry.position, header)
            records = decode_records(content, entry.position, header)
        except ProtocolError:
            return False
        self.append([record.value or b"" for record in records], entry.base_offset)
        self.advance(entry.next_offset)
        return True
