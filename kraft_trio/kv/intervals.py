"""Ranges of keys."""

from __future__ import annotations

from typing import Final

import attrs

TO_THE_END: Final = b"\0"
"""The `range_end` that means all keys from `key` on."""


@attrs.frozen
class Interval:
    """The keys from `start` (inclusive) to `end` (exclusive); None means that there is no end."""

    start: bytes
    end: bytes | None

    @classmethod
    def of(cls, key: bytes, range_end: bytes) -> Interval:
        """The interval that a request means by `key` and `range_end`."""
        if not range_end:
            return cls(key, key + b"\0")
        return cls(key, None if range_end == TO_THE_END else range_end)

    def __contains__(self, key: bytes) -> bool:
        return self.start <= key and (self.end is None or key < self.end)


def prefix_end(prefix: bytes) -> bytes:
    """The `range_end` that means all keys with this prefix."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else TO_THE_END
