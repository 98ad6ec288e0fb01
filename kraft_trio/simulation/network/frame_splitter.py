"""Where frames end in what one side of a connection sends."""

from __future__ import annotations

from typing import Final

_LENGTH_BYTES: Final = 4
_MAX_FRAME_BYTES: Final = 2**30
"""A declared length above this is not the protocol: nobody here sends such frames."""


class FrameSplitter:
    """Cuts a stream of bytes into pieces of which each ends where a frame ends, or within a frame.

    Bytes that are not frames (a negative or absurd length) end the search: they and all that follow are one frame's
    beginning for ever.
    """

    def __init__(self) -> None:
        self._begun = bytearray()
        self._is_foreign = False

    def split(self, data: bytes) -> list[tuple[bytes, bytes | None]]:
        """The pieces of `data`, each with the whole frame, length included, that ends with it, or None."""
        size = len(data)
        if not self._begun and not self._is_foreign and size >= _LENGTH_BYTES:
            length = int.from_bytes(data[:_LENGTH_BYTES], "big")
            if length + _LENGTH_BYTES == size:
                return [(data, data)]
        return self._split_slowly(data)

    def _split_slowly(self, data: bytes) -> list[tuple[bytes, bytes | None]]:
        pieces: list[tuple[bytes, bytes | None]] = []
        position = 0
        while position < len(data):
            if self._is_foreign:
                pieces.append((data[position:], None))
                break
            taken = data[position : position + self._missing()]
            position += len(taken)
            self._begun += taken
            if not self._is_foreign and len(self._begun) >= _LENGTH_BYTES and not self._missing():
                pieces.append((taken, bytes(self._begun)))
                self._begun.clear()
            else:
                pieces.append((taken, None))
        return _joined(pieces)

    def _missing(self) -> int:
        """How many bytes there are to the end of the length, or, once that is known, to the end of the frame."""
        begun = self._begun
        if len(begun) < _LENGTH_BYTES:
            return _LENGTH_BYTES - len(begun)
        length = int.from_bytes(begun[:_LENGTH_BYTES], "big")
        if length > _MAX_FRAME_BYTES:
            self._is_foreign = True
            begun.clear()
            return _MAX_FRAME_BYTES
        return length + _LENGTH_BYTES - len(begun)


def _joined(pieces: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """The same with each length in one piece with what follows it."""
    joined: list[tuple[bytes, bytes | None]] = []
    for data, frame in pieces:
        if joined and joined[-1][1] is None:
            joined[-1] = (joined[-1][0] + data, frame)
        else:
            joined.append((data, frame))
    return joined
