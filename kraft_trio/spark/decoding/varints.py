"""Decodes many zigzag variable-length integers at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kraft_trio.spark.decoding.headers import Ints

Bytes = npt.NDArray[np.uint8]
_LONGEST = 9
"""Number of bytes that always fit into 64 bits."""


def read_varints(data: Bytes, positions: Ints) -> tuple[Ints, Ints, Ints]:
    """The integers at these positions, the positions after them, and which are too long to decode here.

    Positions outside the data read its first or last byte; the caller knows where records end.
    """
    first = data.take(positions, mode="clip")
    zigzag = first.astype(np.int64)
    after = positions + 1
    more = np.flatnonzero(first >= 0x80)
    if len(more):
        zigzag[more] &= 0x7F
    length = 1
    while len(more) and length < _LONGEST:
        byte = data.take(positions[more] + length, mode="clip")
        zigzag[more] |= (byte & 0x7F).astype(np.int64) << (7 * length)
        after[more] += 1
        more = more[byte >= 0x80]
        length += 1
    return (zigzag >> 1) ^ -(zigzag & 1), after, more
