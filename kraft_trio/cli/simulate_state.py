"""`kraft simulate --state`: a search of seeds over all mixes of faults, in as many sittings as it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from kraft_trio.cli.simulation_display import SeedsDisplay
from kraft_trio.cli.terminal.json_option import echo_json
from kraft_trio.cli.terminal.output import echo_line
from kraft_trio.cli.terminal.termination import terminations_as_interrupts
from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign import coverage_page
from kraft_trio.simulation.campaign.chunks import Chunk, chunk_size, chunks_of, run_chunk, run_chunks
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.search import Search
from kraft_trio.simulation.campaign.state_file import StateFile
from kraft_trio.simulation.campaign.strata import StratifiedRuns, strata_of
from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.simulation.script.parts import duration_text
from kraft_trio.storage.disk.created_files import write_own_text

PAGE: Final = "coverage.html"
_ROUND: Final = 100
"""Seeds per process after which the next mixes of faults are chosen."""


def _number(number: int | None) -> str:
    return "that each seed chooses" if number is None else str(number)


_OPTIONS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "voters": ("--nodes", _number),
    "observers": ("--observers", _number),
    "duration_us": ("--time", duration_text),
    "profiles": ("--faults", lambda profiles: ",".join(profiles) or "none"),
}
"""By the fields of PlanOptions, the options and how they are told."""


@attrs.frozen(kw_only=True)
class Sitting:
    """What one call of the command asks for."""

    directory: Path
    seeds: range | None
    """None for those of the sitting before."""
    options: PlanOptions
    given: tuple[str, ...]
    """The names of the fields of `options` that the command line names."""
    jobs: int
    is_report: bool
    """Whether to run no seeds."""
    as_json: bool = False


def run_sitting(sitting: Sitting) -> bool:
    """Run the seeds that have not ended yet, and print the state; whether no seed has failed.

    An interrupt or SIGTERM ends the runs; what has ended by then is in the file.
    Raises ConfigError if the directory has another campaign, CampaignError and OSError.
    """
    with StateFile.opened(sitting.directory) as file:
        ended = file.read()
        options = _begun(file, sitting)
        runs = StratifiedRuns(strata_of(options))
        search = Search(runs, ended)
        try:
            if not sitting.is_report:
                _run(file, search, sitting)
        finally:
            if sitting.as_json:
                echo_json(coverage_page.fields(search, file.seeds))
            for line in () if sitting.as_json else coverage_page.lines(search, file.seeds):
                echo_line(line)
            write_own_text(sitting.directory / PAGE, coverage_page.page(search, file.seeds))
    return not search.failures


def _begun(file: StateFile, sitting: Sitting) -> PlanOptions:
    """The options of the campaign, after the first line of a new one has been written."""
    before = file.options
    if before is None:
        if sitting.seeds is None or sitting.is_report:
            raise ConfigError(f"--state {sitting.directory}: no campaign yet; expected --seeds A:B, without --report")
        file.begin(sitting.options, sitting.seeds)
        return sitting.options
    for name in sitting.given:
        ours, theirs = getattr(sitting.options, name), getattr(before, name)
        if ours != theirs:
            option, told = _OPTIONS[name]
            raise ConfigError(
                f"--state {sitting.directory}: {option} {told(ours)}; expected {told(theirs)}, as the campaign has it"
            )
    if sitting.seeds is not None and sitting.seeds != file.seeds:
        file.choose(sitting.seeds)
    return before


def _run(file: StateFile, search: Search, sitting: Sitting) -> None:
    jobs, left = sitting.jobs, sum(seed not in search.ended for seed in file.seeds)
    with terminations_as_interrupts(), SeedsDisplay(left, tells_violations=not sitting.as_json) as display:
        while chosen := search.next_seeds(file.seeds, jobs * _ROUND):
            with _outcomes(chosen, search.runs, jobs) as outcomes:
                for outcome in outcomes:
                    search.add(file.add(outcome))
                    display.ended(outcome, search.runs.replay)


@contextmanager
def _outcomes(seeds: list[int], runs: StratifiedRuns, jobs: int) -> Iterator[Iterator[Outcome]]:
    """The outcomes of the seeds, in the order in which they finish."""
    size = chunk_size(len(seeds), max(stratum.duration_us for stratum in runs.strata), jobs)
    with closing(run_chunks(chunks_of(seeds, size), partial(_run_chunk, runs), jobs)) as outcomes:
        yield outcomes


def _run_chunk(runs: StratifiedRuns, chunk: Chunk, attempt: int) -> list[Outcome]:
    return list(run_chunk(chunk, runs.run, limit_s=runs.limit_s, attempt=attempt))
