"""Runs chunks of seeds on Spark's executors, one task per chunk, and yields outcomes as tasks end.

Spark restarts a task that ends its Python worker, at most three times.  The last attempt runs each seed in its own
process.  A plain `local[N]` restarts nothing, so a local master becomes `local[N,4]`.
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
from kraft_trio.spark.classic import check_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS: Final = 4
"""How often Spark tries a task before the job fails."""

_LOOK_AGAIN_S: Final = 0.2

Task = Callable[[Chunk, int], list[Outcome]]


def retrying(master: str) -> str:
    """The master, changed so that Spark retries tasks; only local masters need this.

    Raises ConfigError for `local[N,1]`, which forbids retries.
    """
    match = re.fullmatch(r"local(?:\[(?P<threads>\d+|\*)(?:\s*,\s*(?P<failures>\d+))?\])?", master.strip())
    if match is None:
        return master
    if match["failures"] == "1":
        raise ConfigError(f"--master {master}: a seed that ends its process would end all; expected local[N,2] or more")
    return f"local[{match['threads'] or 1},{match['failures'] or ATTEMPTS}]"


def run_chunks(spark: SparkSession, chunks: Iterable[Chunk], task: Task) -> Generator[Outcome, None, None]:
    """Run every chunk as a task, and yield the outcomes of each chunk when its task ends.

    Raises CampaignError if a task fails for good, and ConfigError for a session of Spark Connect.  Closing the iterator
    cancels the running tasks.
    """
    check_classic(spark, "a campaign of simulations")
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
        # A job that has not been submitted yet cannot be cancelled, so repeat this.
        while job.is_alive():
            context.cancelJobGroup(group)
            job.join(_LOOK_AGAIN_S)
    if failures:
        raise CampaignError(f"a task of the campaign failed for good: {_reason(failures[0])}") from failures[0]


class _Lists(AccumulatorParam[list[Outcome]]):
    """The lists, concatenated."""

    def zero(self, value: list[Outcome]) -> list[Outcome]:
        return []

    def addInPlace(self, value1: list[Outcome], value2: list[Outcome]) -> list[Outcome]:
        value1 += value2
        return value1


def _reason(error: Exception) -> str:
    """The most informative line: the last one of a Python error, the first one of any other."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line.strip())]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0].strip()
