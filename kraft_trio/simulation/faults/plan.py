"""What one run is made of: the cluster, its clients, and which fault happens when.  Plain values.

A plan is a scenario script and prints as one, so that a failing run, as it is or shrunk, can be read, kept and run
again by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.script import Script
from kraft_trio.simulation.script.steps import Step
from kraft_trio.simulation.script.steps_campaign import USUAL_PAUSE_US, At, Clients, Fair, Recover


@attrs.frozen
class TimedStep:
    """A step, and when it is taken; later, if the one before it has not come to its end."""

    at_us: int
    """Virtual time since the run began, in microseconds."""
    step: Step


@attrs.frozen(kw_only=True)
class Plan:
    """One run: faults up to `duration_us`, while clients write and read; then what must be possible, as a recovery."""

    header: Header
    clients: int = 2
    clients_every_us: int = USUAL_PAUSE_US
    """The mean time between two operations of one client."""
    duration_us: int = 60_000_000
    faults: tuple[TimedStep, ...] = ()
    """In the order of their times."""
    ending: tuple[Step, ...] = (Recover(),)
    """What is demanded once the last fault has happened."""
    is_fair_by_itself: bool = True
    """Whether its faults leave a majority its disks, whatever happens; else the run has to look that they do."""

    @property
    def seed(self) -> int:
        return self.header.seed

    def steps(self) -> Iterator[Step]:
        """The whole run, step by step, waits included."""
        if not self.is_fair_by_itself:
            yield Fair()
        if self.clients:
            yield Clients(self.clients, self.clients_every_us)
        now_us = 0
        for fault in self.faults:
            if fault.at_us > now_us:
                now_us = fault.at_us
                yield At(now_us)
            yield fault.step
        yield At(self.duration_us)
        yield from self.ending

    def script(self, comment: str = "") -> Script:
        """The run as a scenario script, `comment` at its head."""
        return Script.of(self.header, self.steps(), name=f"seed-{self.seed}", comment=comment)
