"""Clocks of node processes that run at paces of their own, which the harness sets while they run.

A clock is a file of pieces.  From `real_s` on, it shows `shown_s` and then runs `pace` times as fast as the machine's
clock.  The wall clock is another `wall_offset_s` ahead.
"""

from __future__ import annotations

import math
import mmap
import time
from pathlib import Path
from typing import Final

import attrs
import trio

_PIECES: Final = 512
"""The newest ones are in the file."""
_NUMBERS: Final = 4
"""A piece consists of so many."""
_HEAD: Final = 3
"""Before them are the count of pieces, and how many there were when the node's process used each of its two clocks."""
DURATIONS: Final = 1
LEASES: Final = 2
LOOKS_AGAIN_AFTER_S: Final = 0.05
"""A task that sleeps by such a clock looks at the pace again after this time."""


def real_clock_s() -> float:
    """The machine's clock, as `Environment.clock_s`."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@attrs.frozen
class Piece:
    real_s: float
    shown_s: float
    pace: float
    wall_offset_s: float

    def shows_at(self, real_s: float) -> float:
        return self.shown_s + (real_s - self.real_s) * self.pace


class ClockFile:
    """One node's clock.  One process sets it, others read it."""

    def __init__(self, path: Path) -> None:
        """The file must exist; `create` makes one."""
        with path.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")

    @classmethod
    def create(cls, path: Path) -> ClockFile:
        """A clock that shows the machine's time."""
        path.write_bytes(bytes(8 * (_HEAD + _NUMBERS * _PIECES)))
        clock = cls(path)
        now_s = real_clock_s()
        clock._append(Piece(now_s, now_s, 1.0, 0.0))
        return clock

    @property
    def count(self) -> int:
        """How many pieces there have been."""
        return int(self._numbers[0])

    @property
    def piece(self) -> Piece:
        """The present piece."""
        place = self._place(self.count - 1)
        return Piece(*self._numbers[place : place + _NUMBERS])

    def note_use(self, which: int) -> None:
        """The node's process uses the present piece: for `DURATIONS` or `LEASES`."""
        self._numbers[which] = self.count

    def is_used(self, which: int) -> bool:
        """Whether the node's process has used the present piece."""
        return int(self._numbers[which]) == self.count

    def set(self, pace: float, wall_offset_s: float | None = None) -> None:
        """Continue at another pace.  Only the wall clock may jump."""
        now_s, before = real_clock_s(), self.piece
        offset_s = before.wall_offset_s if wall_offset_s is None else wall_offset_s
        self._append(Piece(now_s, before.shows_at(now_s), pace, offset_s))

    def _append(self, piece: Piece) -> None:
        count = self.count
        place = self._place(count)
        for index, number in enumerate(attrs.astuple(piece)):
            self._numbers[place + index] = number
        self._numbers[0] = count + 1  # A reader sees the piece only now, and whole.

    @staticmethod
    def _place(number: int) -> int:
        return _HEAD + number % _PIECES * _NUMBERS


class DriftingClock(trio.abc.Clock):
    """What a node process sees of its clock: durations, read leases and the wall clock follow it."""

    def __init__(self, file: ClockFile) -> None:
        self._file = file
        self._latest_s = 0.0

    def lease_clock_s(self) -> float:
        """See `Environment.clock_s`."""
        self._file.note_use(LEASES)
        return self._now_s()

    def wall_clock_ms(self) -> int:
        """See `Environment.wall_clock_ms`."""
        ahead_s = self._now_s() - real_clock_s() + self._file.piece.wall_offset_s
        return time.time_ns() // 1_000_000 + round(ahead_s * 1000)

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        self._file.note_use(DURATIONS)
        return self._now_s()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        left_s = (deadline - self._now_s()) / self._file.piece.pace
        return left_s if math.isinf(left_s) else max(0.0, min(left_s, LOOKS_AGAIN_AFTER_S))

    def _now_s(self) -> float:
        piece = self._file.piece
        # The piece may just have been replaced by a slower one, but no clock goes back.
        self._latest_s = max(self._latest_s, piece.shows_at(real_clock_s()))
        return self._latest_s
