"""Selects batches and records of a scan by their headers."""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from kraft_trio.spark.decoding.headers import Headers, Ints, field
from kraft_trio.spark.decoding.scan import Run
from kraft_trio.storage.batches.batch import Record
from kraft_trio.storage.batches.batch_header import CONTROL_ATTRIBUTE, LOG_APPEND_TIME_ATTRIBUTE

NO_END = 2**63 - 1
NO_BEGINNING = -(2**63)


@attrs.frozen
class BatchFilter:
    """The wanted offsets, epochs and times.  Damaged and misplaced batches always pass."""

    start_offset: int = 0
    """Inclusive."""
    end_offset: int = NO_END
    """Exclusive."""
    first_epoch: int = -(2**31)
    """Inclusive."""
    last_epoch: int = 2**31 - 1
    """Inclusive."""
    only_control: bool = False
    first_ms: int = NO_BEGINNING
    """Of the records' timestamps in milliseconds since 1970, inclusive."""
    last_ms: int = NO_END
    """Inclusive."""

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
        if self.has_times:
            is_wanted &= self._may_have_times(run.headers)
        if self.only_control:
            is_wanted &= run.headers["attributes"] & CONTROL_ATTRIBUTE != 0
        is_wanted[[*run.damaged, *run.misplaced]] = True
        return run if is_wanted.all() else run.select(np.flatnonzero(is_wanted))

    @property
    def has_times(self) -> bool:
        """Whether not all times are wanted."""
        return self.first_ms > NO_BEGINNING or self.last_ms < NO_END

    def _may_have_times(self, headers: Headers) -> npt.NDArray[np.bool_]:
        """The header has the latest time of a record, and the first record's, which need not be the earliest."""
        latest_ms = headers["max_timestamp_ms"]
        is_append_time = headers["attributes"] & LOG_APPEND_TIME_ATTRIBUTE != 0
        may_be_late = np.maximum(latest_ms, headers["base_timestamp_ms"]) >= self.first_ms
        may_have: npt.NDArray[np.bool_] = may_be_late & ~(is_append_time & (latest_ms > self.last_ms))
        return may_have

    def times(self, timestamps_ms: Ints) -> npt.NDArray[np.bool_]:
        """Which records of the wanted batches are wanted."""
        return (timestamps_ms >= self.first_ms) & (timestamps_ms <= self.last_ms)

    def has(self, record: Record) -> bool:
        """Whether a record of the wanted batches is wanted."""
        is_in_time = self.first_ms <= record.timestamp_ms <= self.last_ms
        return is_in_time and self.start_offset <= record.offset < self.end_offset

    def records(self, offsets: Ints) -> npt.NDArray[np.bool_]:
        """Which records of the wanted batches are wanted."""
        return (offsets >= self.start_offset) & (offsets < self.end_offset)


_EVERYTHING = BatchFilter()
