"""A bounds-checked reader of Kafka's flexible-version encoding, for bytes that may be damaged.

The schema library reserves memory for an array before it looks at what is left of its input, and ends the process when
there is not enough.  Control records reach us from other nodes and from disks, so they are read with this instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.record_limits import MAX_CONTROL_ITEMS

T = TypeVar("T")


class FlexibleReader:
    """Reads one value from its start.

    Every method raises ProtocolError, naming `what`, if the bytes end early, or if the arrays and tagged fields read so
    far hold more than MAX_CONTROL_ITEMS items.
    """

    __slots__ = ("_data", "_items_left", "_position", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._position = 0
        self._items_left = MAX_CONTROL_ITEMS
        self._what = what

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ProtocolError(
                f"{self._what}: {size} bytes expected at position {self._position}, "
                f"{len(self._data) - self._position} left"
            )
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def uint16(self) -> int:
        return int.from_bytes(self._take(2), "big")

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def unsigned_varint(self) -> int:
        """At most five bytes, as Kafka writes an uint32."""
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ProtocolError(f"{self._what}: a varint of more than five bytes ends at position {self._position}")

    def compact_string(self) -> str:
        raw = self._take(self._compact_length("string"))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"{self._what}: a string before position {self._position} is not UTF-8") from error

    def compact_array(self, item: Callable[[], T]) -> tuple[T, ...]:
        """A non-null array."""
        return tuple(item() for _ in range(self._counted(self._compact_length("array"))))

    def _counted(self, items: int) -> int:
        self._items_left -= items
        if self._items_left < 0:
            raise ProtocolError(f"{self._what}: more than {MAX_CONTROL_ITEMS} items, at position {self._position}")
        return items

    def _compact_length(self, kind: str) -> int:
        length = self.unsigned_varint() - 1
        if length < 0:
            raise ProtocolError(f"{self._what}: the {kind} before position {self._position} is null")
        return length

    def skip_tagged_fields(self) -> None:
        """Pass over the tagged fields that end a structure; newer writers may add some (KIP-482)."""
        self.tagged_fields()

    def tagged_fields(self) -> dict[int, bytes]:
        """The content of the tagged fields that end a structure, by tag (KIP-482)."""
        fields = {}
        for _ in range(self._counted(self.unsigned_varint())):
            tag = self.unsigned_varint()
            fields[tag] = self._take(self.unsigned_varint())
        return fields

    def end(self) -> None:
        """Raises ProtocolError unless all bytes were read."""
        if self._position != len(self._data):
            raise ProtocolError(
                f"{self._what}: {len(self._data) - self._position} bytes after its end at position {self._position}"
            )
