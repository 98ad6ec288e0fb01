"""Counts and times the turns of the event loop.  In one turn, every task that can run takes one step."""

from __future__ import annotations

import time

import trio


class LoopTurns(trio.abc.Instrument):
    """The counter of one Trio run, shared by all of its tasks."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the current turn."""
        self.began_ns = time.perf_counter_ns()
        """When the current turn began, by `time.perf_counter_ns`."""

    @classmethod
    def of_this_run(cls) -> LoopTurns:
        """The counter of the current Trio run."""
        try:
            return _OF_RUN.get()
        except LookupError:
            turns = cls()
            trio.lowlevel.add_instrument(turns)
            _OF_RUN.set(turns)
            return turns

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1
        self.began_ns = time.perf_counter_ns()


_OF_RUN: trio.lowlevel.RunVar[LoopTurns] = trio.lowlevel.RunVar("LoopTurns")
