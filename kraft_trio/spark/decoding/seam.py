"""Where one segment ends and the next one begins: whether the log goes on there."""

from __future__ import annotations

import numpy as np

from kraft_trio.spark.decoding.expectation import Expectation
from kraft_trio.spark.decoding.headers import gather
from kraft_trio.storage.batch_header import HEADER_BYTES, MAGIC


def seam_error(expectation: Expectation, base_offset: int, start: bytes) -> str | None:
    """What is wrong between a segment's end and the next one, or None.

    `expectation` is what the end leads to, `base_offset` what the next one's name says, `start` what it begins with: a
    header, or fewer bytes where there is none.  Of what is damaged there the next segment's own error tells.
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
