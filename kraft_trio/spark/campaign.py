"""Chunks of seeds over the executors of Spark: one task a chunk, outcomes as the tasks end.

A task that ends its Python worker is begun anew by Spark, three times at most, and then runs every seed in a process of
its own; `local[N]` alone begins none anew, so that a local master is `local[N,4]` here.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import AccumulatorParam, InheritableThread, TaskContext

from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.campaign import CampaignError
from kraft_trio.simulation.campaign.chunks import Chunk
from kraft_trio.simulation.campaign.outcome import Outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS: Final = 4
"""How often Spark begins a task before the job fails."""

_LOOK_AGAIN_S: Final = 0.2

Task = Callable[[Chunk, int], list[Outcome]]


def retrying(master: str) -> str:
    """A master by which tasks are begun anew: a local one is told how often, others are as they are.

    Raises ConfigError for `local[N,1]`, which asks for the contrary.
    """
    match = re.fullmatch(r"local(?:\[(?P<threads>\d+|\*)(?:\s*,\s*(?P<failures>\d+))?\])?", master.strip())
    if match is None:
        return master
    if match["failures"] == "1":
        raise ConfigError(f"--master {master}: a seed that ends its process would end all; expected local[N,2] or more")
    return f"local[{match['threads'] or 1},{match['failures'] or ATTEMPTS}]"


def run_chunks(spark: SparkSession, chunks: Iterable[Chunk], task: Task) -> Generator[Outcome, None, None]:
    """Run every chunk as a task, and give the outcomes of each when it has ended, in the order in which they end.

    Raises CampaignError where a task fails for good.  Closing the iterator cancels what still runs.
    """
    todo = list(chunks)
    if not todo:
        return
    context = spark.sparkContext
    ended = context.accumulator([], _Lists())
    group = f"kraft-campaign-{uuid.uuid4()}"
    failures: list[Exception] = []

    def run_tasks(task_chunks: Iterable[Chunk]) -> None:
        running = TaskContext.get()
        assert running is not None, "not within a task"
        attempt = running.attemptNumber()
        for chunk in task_chunks:
            ended.add(task(chunk, attempt))

    def run_job() -> None:
        context.setJobGroup(group, f"{len(todo)} chunks of seeds", interruptOnCancel=True)
        try:
            context.parallelize(todo, len(todo)).foreachPartition(run_tasks)
        except Exception as error:
            failures.append(error)

    job = InheritableThread(target=run_job, name=group, daemon=True)
    job.start()
    given = 0
    try:
        while True:
            is_over = not job.is_alive()
            outcomes: Sequence[Outcome] = ended.value[given:]
            given += len(outcomes)
            yield from outcomes
            if is_over:
                break
            job.join(_LOOK_AGAIN_S)
    finally:
        # Again and again: a job that has not been handed in yet is not cancelled.
        while job.is_alive():
            context.cancelJobGroup(group)
            job.join(_LOOK_AGAIN_S)
    if failures:
        raise CampaignError(f"a task of the campaign failed for good: {_reason(failures[0])}") from failures[0]


class _Lists(AccumulatorParam[list[Outcome]]):
    """Lists, one behind the other."""

    def zero(self, value: list[Outcome]) -> list[Outcome]:
        return []

    def addInPlace(self, value1: list[Outcome], value2: list[Outcome]) -> list[Outcome]:
        value1 += value2
        return value1


def _reason(error: Exception) -> str:
    """The line that says most: of Python's own errors the last, of others the first."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line.strip())]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0].strip()
