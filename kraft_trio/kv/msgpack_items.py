"""Counts the items of msgpack without decoding them, because a byte of it may become an object of a hundred."""

from __future__ import annotations

from typing import Final

_LENGTHS: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes and texts: by the first byte, how many bytes tell their length."""
_CONTAINERS: Final = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
"""Lists and maps, whose items follow."""
_EXTENSIONS: Final = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED: Final = {
    **{0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8},
    **{0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17},
}
"""Numbers and small extensions: how many bytes follow."""


def has_more_items(data: bytes, position: int, most: int) -> bool:
    """Whether there are more than `most` items from a position on; stops counting there.

    Lists and maps are items, too.  What is no msgpack counts as far as it can be told.
    """
    items = 0
    end = len(data)
    while position < end:
        items += 1
        if items > most:
            return True
        kind = data[position]
        position += 1
        if 0xA0 <= kind < 0xC0:
            position += kind & 0x1F
        elif kind in _LENGTHS:
            size = _LENGTHS[kind]
            position += size + int.from_bytes(data[position : position + size], "big")
        elif kind in _FIXED:
            position += _FIXED[kind]
        elif kind in _CONTAINERS:
            position += _CONTAINERS[kind]
        elif kind in _EXTENSIONS:
            size = _EXTENSIONS[kind]
            position += size + 1 + int.from_bytes(data[position : position + size], "big")
    return False
