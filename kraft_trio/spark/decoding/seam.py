"""Checks that the log continues from one segment to the next."""

from __future__ import annotations

import numpy as np

from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.headers import gather
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, MAGIC


def seam_error(expectation: Expectation, base_offset: int, start: bytes) -> str | None:
    """The problem between a segment's end and the next segment, or None.

    `expectation` comes from the end, `base_offset` from the next file's name, and `start` is its first header, or fewer
    bytes.  If the start itself is damaged, the next segment reports that.
    """
    problems = []
    if not expectation.allows(base_offset):
        problems.append(
            f"the segment ends before offset {expectation.base_offset}, the next one begins with offset {base_offset}"
        )
    if len(start) >= HEADER_BYTES:
        header = gather(start, np.zeros(1, np.int64))[0]
        is_right = header["magic"] == MAGIC and header["base_offset"] == base_offset
        if is_right and 0 <= header["leader_epoch"] < expectation.epoch:
            problems.append(
                f"the segment ends in epoch {expectation.epoch}, the next one begins in epoch {header['leader_epoch']}"
            )
    return "; ".join(problems) or None
