"""Run seeds as `kraft simulate --out DIR` does, with Spark or without: see `--help`.

Prints as JSON the time from handing out the first chunk to the last outcome, and to the first outcome.  Both exclude
the start of the Spark session.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator
from pathlib import Path

import click

from kraft_trio.simulation.campaign.chunks import chunk_size, chunks_of
from kraft_trio.simulation.campaign.chunks import run_chunks as run_chunks_here
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.seed_run import SeedRuns
from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.spark.campaigns.files import CampaignDirectory
from kraft_trio.spark.campaigns.task import ChunkTask


@click.command(help=__doc__)
@click.argument("way", type=click.Choice(["pool", "spark"]))
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--jobs", type=int, required=True, help="How many seeds at a time.")
@click.option("--seeds", type=int, required=True, help="How many in all.")
@click.option("--seconds", type=int, required=True, help="How long faults happen, in virtual time.")
def main(way: str, directory: Path, jobs: int, seeds: int, seconds: int) -> None:
    runs = SeedRuns(PlanOptions(duration_us=seconds * 1_000_000))
    kept = CampaignDirectory(directory)
    kept.begin(runs.settings())
    # The same chunks, whatever the jobs.
    chunks = list(chunks_of(range(seeds), chunk_size(seeds, runs.options.duration_us, cores=2)))
    task = ChunkTask(runs, kept)
    if way == "pool":
        answer = _measured(run_chunks_here(chunks, task, jobs))
    else:
        from kraft_trio.cli.terminal.quiet_spark import quiet_session
        from kraft_trio.spark.campaigns.run import retrying, run_chunks

        began = time.perf_counter()
        with quiet_session(retrying(f"local[{jobs}]"), "campaign") as spark:
            session_s = time.perf_counter() - began
            answer = _measured(run_chunks(spark, chunks, task)) | {"session_s": session_s}
    if answer["outcomes"] != seeds:
        sys.exit(f"{answer['outcomes']} of {seeds} seeds have an outcome")
    click.echo(json.dumps(answer | {"chunks": len(chunks)}))


def _measured(outcomes: Generator[Outcome, None, None]) -> dict[str, float]:
    began = time.perf_counter()
    ended = [next(outcomes)]
    first_s = time.perf_counter() - began
    ended += outcomes
    return {
        "seconds": time.perf_counter() - began,
        "first_s": first_s,
        "outcomes": len(ended),
        "virtual_s": sum(outcome.virtual_s for outcome in ended),
        "work_s": sum(outcome.real_s for outcome in ended),
        "violations": sum(outcome.failure is not None for outcome in ended),
    }


if __name__ == "__main__":
    main()
