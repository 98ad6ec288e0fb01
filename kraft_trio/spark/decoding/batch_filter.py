"""Selects batches and records of a scan by their headers."""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from kraft_trio.spark.decoding.headers import Ints, field
from kraft_trio.spark.decoding.scan import Run
from kraft_trio.storage.batches.batch_header import CONTROL_ATTRIBUTE

NO_END = 2**63 - 1


@attrs.frozen
class BatchFilter:
    """The wanted offsets and epochs.  Damaged and misplaced batches always pass."""

    start_offset: int = 0
    """Inclusive."""
    end_offset: int = NO_END
    """Exclusive."""
    first_epoch: int = -(2**31)
    """Inclusive."""
    last_epoch: int = 2**31 - 1
    """Inclusive."""
    only_control: bool = False

    def select(self, run: Run) -> Run:
        """The wanted batches of a run."""
        if self == _EVERYTHING:
            return run
        base_offsets = field(run.headers, "base_offset")
        epochs = run.headers["leader_epoch"]
        is_wanted = (base_offsets < self.end_offset) & (
            base_offsets + field(run.headers, "last_offset_delta") >= self.start_offset
        )
        is_wanted &= (epochs >= self.first_epoch) & (epochs <= self.last_epoch)
        if self.only_control:
            is_wanted &= run.headers["attributes"] & CONTROL_ATTRIBUTE != 0
        is_wanted[[*run.damaged, *run.misplaced]] = True
        return run if is_wanted.all() else run.select(np.flatnonzero(is_wanted))

    def records(self, offsets: Ints) -> npt.NDArray[np.bool_]:
        """Which records of the wanted batches are wanted."""
        return (offsets >= self.start_offset) & (offsets < self.end_offset)


_EVERYTHING = BatchFilter()
