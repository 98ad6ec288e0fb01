"""Sparse indexes of one segment: from offset to position, and from timestamp to offset.

Both are derived data.  Opening rebuilds them in memory from the batch headers.  Sealing or closing a segment writes its
`.index` and `.timeindex` files, in Kafka's formats and without an fsync.  A sealed segment keeps some of the entries in
memory, so that a long log costs little.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

INDEX_INTERVAL_BYTES = 4096
"""The next entry is for the first batch that starts more than this many bytes after the previous entry's."""
SEALED_INTERVAL_BYTES = 16 * INDEX_INTERVAL_BYTES
"""In memory, entries of a sealed segment are at least this many bytes apart.

With an entry in each index, 28 bytes, that is at most 448 KiB for each GiB of log.
"""


class OffsetIndex:
    """Pairs of a batch's last offset, relative to the segment's base offset, and the batch's position.

    In memory each entry also has the largest timestamp up to its batch.  Entries of the time index can be far apart, if
    clients send old timestamps.
    """

    __slots__ = ("_base_offset", "_max_timestamps_ms", "_offsets", "_positions")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets = array("I")
        self._positions = array("I")
        self._max_timestamps_ms = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, last_offset: int, position: int, max_timestamp_ms: int) -> None:
        """Add an entry.  `max_timestamp_ms` is the largest in the segment up to that batch, inclusive."""
        self._offsets.append(last_offset - self._base_offset)
        self._positions.append(position)
        self._max_timestamps_ms.append(max_timestamp_ms)

    def lookup(self, offset: int) -> int:
        """Return the position of a batch at or before the one that contains `offset`."""
        entry = bisect_right(self._offsets, offset - self._base_offset) - 1
        return self._positions[entry] if entry >= 0 else 0

    def lookup_time(self, timestamp_ms: int) -> int:
        """Return the position of a batch at or before the first one with a record of that time or later.

        The two are at most two entries apart.
        """
        entry = bisect_left(self._max_timestamps_ms, timestamp_ms) - 1
        return self._positions[entry] if entry >= 0 else 0

    @property
    def last_position(self) -> int:
        """The position of the newest entry's batch; 0 without entries."""
        return self._positions[-1] if self._positions else 0

    def truncate_to_position(self, position: int) -> None:
        """Forget the batches at `position` and after."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]
        del self._max_timestamps_ms[keep:]

    def thin(self, interval_bytes: int) -> Sequence[int]:
        """Keep the first entry and those at least so many bytes after the one kept before.

        Returns the largest timestamps (ms) up to the entries that are kept.
        """
        positions = self._positions
        kept = []
        entry = 0
        while entry < len(positions):
            kept.append(entry)
            entry = bisect_left(positions, positions[entry] + interval_bytes, entry + 1)
        self._offsets = array("I", [self._offsets[entry] for entry in kept])
        self._max_timestamps_ms = array("q", [self._max_timestamps_ms[entry] for entry in kept])
        self._positions = array("I", [positions[entry] for entry in kept])
        return self._max_timestamps_ms

    def encode(self) -> bytes:
        """The content of the `.index` file: pairs of int32."""
        pairs = array("I", bytes(8 * len(self._offsets)))
        pairs[0::2] = self._offsets
        pairs[1::2] = self._positions
        pairs.byteswap()
        return pairs.tobytes()


class TimeIndex:
    """Pairs of the largest timestamp so far and the last offset, relative, of the batch that has it."""

    __slots__ = ("_base_offset", "_offsets", "_timestamps_ms")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps_ms = array("q")
        self._offsets = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    def append_if_later(self, timestamp_ms: int, last_offset: int) -> None:
        if not self._timestamps_ms or timestamp_ms > self._timestamps_ms[-1]:
            self._timestamps_ms.append(timestamp_ms)
            self._offsets.append(last_offset - self._base_offset)

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """The newest timestamp and its offset."""
        if not self._offsets:
            return None
        return self._timestamps_ms[-1], self._base_offset + self._offsets[-1]

    def truncate_to(self, offset: int) -> None:
        """Forget the batches that end at `offset` or later."""
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del self._offsets[keep:]
        del self._timestamps_ms[keep:]

    def thin_to(self, timestamps_ms: Sequence[int]) -> None:
        """Keep the entries of these timestamps, which are in ascending order and each of which has one."""
        kept = [bisect_left(self._timestamps_ms, timestamp_ms) for timestamp_ms in sorted(set(timestamps_ms))]
        self._offsets = array("I", [self._offsets[entry] for entry in kept])
        self._timestamps_ms = array("q", [self._timestamps_ms[entry] for entry in kept])

    def encode(self) -> bytes:
        """The content of the `.timeindex` file: int64 and int32 alternating."""
        fields = [field for pair in zip(self._timestamps_ms, self._offsets, strict=True) for field in pair]
        return struct.pack(">" + "qI" * len(self), *fields)
