"""How the seeds of a campaign are run: what is the same for all of them."""

from __future__ import annotations

import shlex
from typing import Final, Protocol

import attrs

from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.seed_run import TraceTo, cpu_limit_s, run_seed
from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.simulation.script.parts import duration_text

_DEFAULTS: Final = PlanOptions()

_LATER: Final = 1.25
"""How much later than the run itself whoever runs it says that it is stuck."""


class Runs(Protocol):
    """Runs any seed.  To be handed to other processes it must be picklable."""

    @property
    def limit_s(self) -> float:
        """After how many CPU seconds a run counts as stuck."""
        ...

    def run(self, seed: int) -> Outcome: ...

    def run_traced(self, seed: int, path: str) -> Outcome:
        """The same run, with its trace in a file.  Raises OSError."""
        ...

    def replay(self, seed: int) -> str:
        """The command line that runs it again."""
        ...


@attrs.frozen
class SeedRuns:
    """The simulator's own runs."""

    options: PlanOptions

    @property
    def limit_s(self) -> float:
        return cpu_limit_s(self.options.duration_us) * _LATER

    def run(self, seed: int) -> Outcome:
        return run_seed(seed, self.options)

    def run_traced(self, seed: int, path: str) -> Outcome:
        return run_seed(seed, self.options, TraceTo(path, self.replay(seed)))

    def replay(self, seed: int) -> str:
        return shlex.join(["kraft", "simulate", "--seed", str(seed), *_words(self.options)])

    def settings(self) -> dict[str, object]:
        """What decides over its runs besides the seed, by the names of the command line's options."""
        options = self.options
        return {
            "nodes": options.voters,
            "observers": options.observers,
            "time": duration_text(options.duration_us),
            "faults": "clique" if options.clique else ",".join(options.profiles) or "none",
        }


def _words(options: PlanOptions) -> list[str]:
    """The options that are not the defaults, as the command line has them."""
    words: list[str] = []
    if options.voters is not None:
        words += ["--nodes", str(options.voters)]
    if options.observers is not None:
        words += ["--observers", str(options.observers)]
    if options.duration_us != _DEFAULTS.duration_us:
        words += ["--time", duration_text(options.duration_us)]
    if options.profiles != _DEFAULTS.profiles:
        words += ["--faults", ",".join(options.profiles) or "none"]
    if options.clique:
        words.append("--clique")
    return words
