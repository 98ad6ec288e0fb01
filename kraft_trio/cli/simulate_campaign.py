"""`kraft simulate` with `--out` or `--spark`: a campaign that keeps its results, resumes, and survives bad seeds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kraft_trio.cli.simulation_display import SeedsDisplay
from kraft_trio.cli.terminal.json_option import echo_json
from kraft_trio.cli.terminal.output import echo_line
from kraft_trio.cli.terminal.quiet_spark import quiet_session
from kraft_trio.cli.terminal.termination import terminations_as_interrupts
from kraft_trio.extras import needing
from kraft_trio.simulation.campaign import chunks
from kraft_trio.simulation.campaign.campaign import Summary, report, report_fields
from kraft_trio.simulation.campaign.chunks import Chunk, chunk_size, chunks_of
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.seed_run import SeedRuns

if TYPE_CHECKING:
    from kraft_trio.spark.campaigns.files import CampaignDirectory


@attrs.frozen
class FanOut:
    """Where and how the seeds of a campaign run."""

    jobs: int
    chunk: int | None
    """Seeds per task; None for about a second of work."""
    spark: bool
    master: str | None
    out: Path | None
    as_json: bool = False
    """Whether stdout gets the report as one JSON value alone."""


def run_kept_campaign(seeds: Sequence[int], runs: SeedRuns, where: FanOut) -> Summary:
    """Run the seeds that have no result in the directory yet, and print a summary of all of them.

    An interrupt or SIGTERM ends the runs, and the summary is that of the seeds that have ended.
    Raises ConfigError if the directory belongs to another campaign or the extra `spark` is missing; CampaignError,
    OSError.
    """
    began = time.monotonic()
    directory = None if where.out is None else _begun(where.out, runs)
    known = {} if directory is None else directory.outcomes(seeds)
    summary = Summary()
    left = [seed for seed in seeds if seed not in known]
    with terminations_as_interrupts():
        try:
            with SeedsDisplay(len(seeds), tells_violations=not where.as_json) as display:
                for outcome in known.values():
                    summary.add(outcome)
                    display.known(outcome)
                if left:
                    with _running(left, runs, where, directory) as outcomes:
                        for outcome in outcomes:
                            summary.add(outcome)
                            display.ended(outcome, runs.replay)
        finally:
            # Also of the seeds that ran before an interrupt.
            if summary.seeds:
                elapsed_s = time.monotonic() - began
                lines = list(report(summary, elapsed_s, runs.replay))
                if where.as_json:
                    echo_json(report_fields(summary, elapsed_s, runs.replay))
                for line in () if where.as_json else lines:
                    echo_line(line)
                if directory is not None:
                    directory.write_summary(lines)
    if directory is not None:
        directory.check_is_shared(left)
    return summary


@contextmanager
def _running(
    seeds: Sequence[int], runs: SeedRuns, where: FanOut, directory: CampaignDirectory | None
) -> Iterator[Iterator[Outcome]]:
    """The outcomes of the seeds, in the order in which they finish."""
    task = _imported("task").ChunkTask(runs, directory)
    split = partial(_split, seeds, runs, where)
    if not where.spark:
        with closing(chunks.run_chunks(split(where.jobs), task, min(where.jobs, len(seeds)))) as outcomes:
            yield outcomes
        return
    campaign = _imported("run")
    with quiet_session(campaign.retrying(where.master or f"local[{where.jobs}]"), "kraft simulate") as spark:
        with closing(campaign.run_chunks(spark, split(spark.sparkContext.defaultParallelism), task)) as outcomes:
            yield outcomes


def _split(seeds: Sequence[int], runs: SeedRuns, where: FanOut, cores: int) -> Iterator[Chunk]:
    return chunks_of(seeds, where.chunk or chunk_size(len(seeds), runs.options.duration_us, cores))


def _begun(out: Path, runs: SeedRuns) -> CampaignDirectory:
    directory: CampaignDirectory = _imported("files").CampaignDirectory(out.absolute())
    directory.begin({"format": "kraft-trio campaign", "version": version("kraft-trio"), **runs.settings()})
    return directory


def _imported(name: str) -> Any:
    """Import a module of the campaigns on Spark.  Raises MissingExtraError."""
    import importlib

    with needing("spark", "kraft simulate with --out or --spark"):
        return importlib.import_module(f"kraft_trio.spark.campaigns.{name}")
