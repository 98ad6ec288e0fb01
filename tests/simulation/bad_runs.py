"""Runs in which some seeds fail, each in its own way; the others end at once."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import attrs

from kraft_trio.simulation.campaign.outcome import Failure, Outcome

RAISES, LOOPS, DIES, IS_KILLED, VIOLATES = 3, 5, 7, 8, 9
"""Seeds that end otherwise than with an outcome in which all is well."""

RULES = {
    RAISES: "ZeroDivisionError",
    LOOPS: "stuck",
    DIES: "died",
    IS_KILLED: "died",
    VIOLATES: "invariant 5",
}
"""What becomes of each of them."""

LIMIT_S = 0.5


@attrs.frozen
class BadRuns:
    """See `seed_runs.Runs`.  Each run leaves a mark in the directory, where there is one."""

    marks: Path | None = None
    bad: tuple[int, ...] = (RAISES, LOOPS, DIES, IS_KILLED, VIOLATES)

    @property
    def limit_s(self) -> float:
        return LIMIT_S

    def run(self, seed: int) -> Outcome:
        if self.marks is not None:
            with (self.marks / str(seed)).open("a") as file:
                file.write("x")
        if seed in self.bad:
            if seed == RAISES:
                raise ZeroDivisionError("seed 3")
            if seed == DIES:
                os._exit(7)
            if seed == IS_KILLED:
                os.kill(os.getpid(), signal.SIGKILL)
            while seed == LOOPS:
                pass
        failure = Failure("invariant 5", "logs match", 1.5, ("a", "b")) if seed in self.bad else None
        return Outcome(
            seed,
            failure,
            2.0,
            0.25,
            f"digest-{seed}",
            {"elections": seed},
            {"kill": 1},
            Counter(x=seed),
            seed * 1000,
            7,
        )

    def run_traced(self, seed: int, path: str) -> Outcome:
        (Path(path)).write_bytes(TRACE)
        return self.run(seed)

    def replay(self, seed: int) -> str:
        return f"replay {seed}"


TRACE = b'{"format":"kraft-trio trace","version":1,"seed":9}\n'
