"""Segments as a running or killed node leaves them: zeros may follow the batches of the last one."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, Final

_FRAME: Final = struct.Struct(">qi")
"""Base offset, and the length of what follows."""


def written_size(path: Path) -> int:
    """Return where the zeros begin that reach to the end of the segment, or else its size."""
    with path.open("rb") as file:
        return _written_size(file)


def written_bytes(path: Path) -> bytes:
    """Return the segment without the zeros at its end."""
    with path.open("rb") as file:
        size = _written_size(file)
        file.seek(0)
        return file.read(size)


def _written_size(file: BinaryIO) -> int:
    """A batch may end in zeros, too, so the batches are passed one by one."""
    end = file.seek(0, 2)
    position = 0
    while position + _FRAME.size <= end:
        file.seek(position)
        _, length = _FRAME.unpack(file.read(_FRAME.size))
        if length <= 0:
            break
        position += _FRAME.size + length
    if position >= end:
        return end
    file.seek(position)
    return end if any(file.read()) else position
