"""Many zigzag variable-length integers at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kraft_trio.spark.decoding.headers import Ints

Bytes = npt.NDArray[np.uint8]
_LONGEST = 9
"""Bytes of one that is sure to fit into 64 bits."""


def read_varints(data: Bytes, positions: Ints) -> tuple[Ints, Ints, Ints]:
    """The integers at those positions, the positions after them, and which of them are too long to be read here.

    Positions outside of the data are taken for its first or last byte: the caller knows where records end.
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
