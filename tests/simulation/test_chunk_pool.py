"""Chunks over processes: all outcomes once, also where a seed takes its process along."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import attrs
import pytest

pytest.importorskip("pyarrow", reason="needs the extra `spark`")

from harness.waiting import wait_until
from kraft_trio.simulation.campaign import chunks as chunks_module
from kraft_trio.simulation.campaign.campaign import AHEAD, CampaignError
from kraft_trio.simulation.campaign.chunks import ATTEMPTS, Chunk, Task, chunks_of, run_chunks
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.spark.campaigns.task import ChunkTask
from tests.simulation.bad_runs import DIES, IS_KILLED, RULES, BadRuns


@pytest.mark.rotating(2)
@pytest.mark.parametrize("jobs", [1, 2])
def test_every_seed_has_one_outcome(jobs: int) -> None:
    outcomes = list(run_chunks(chunks_of(range(12), 2), ChunkTask(BadRuns()), jobs))
    assert sorted(outcome.seed for outcome in outcomes) == list(range(12))
    assert {o.seed: o.failure.rule for o in outcomes if o.failure is not None} == RULES


def test_only_chunks_that_were_handed_out_are_run_again(tmp_path: Path) -> None:
    runs = BadRuns(tmp_path, bad=(IS_KILLED,))
    seeds = [*(seed for seed in range(40) if seed != IS_KILLED), IS_KILLED]
    assert len(list(run_chunks(chunks_of(seeds, 1), ChunkTask(runs), 2))) == 40
    again = [int(path.name) for path in tmp_path.iterdir() if path.read_text() != "x"]
    assert IS_KILLED in again
    assert len(again) <= 2 * AHEAD


class OneIsSlow:
    """Chunk 0 takes its time; every other one ends its process at the first attempt."""

    def __call__(self, chunk: Chunk, attempt: int) -> list[Outcome]:
        if chunk == (0,):
            time.sleep(2.0)
        elif attempt == 0:
            os._exit(7)
        return [BadRuns(bad=()).run(seed) for seed in chunk]


@pytest.mark.rotating(3)
def test_a_slow_chunk_is_not_blamed_for_what_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks_module, "AHEAD", 1)
    outcomes = list(run_chunks(chunks_of(range(ATTEMPTS + 1), 1), OneIsSlow(), 2))
    assert sorted(outcome.seed for outcome in outcomes) == list(range(ATTEMPTS + 1))


class TellsTheProcess:
    def __call__(self, chunk: Chunk, attempt: int) -> list[Outcome]:
        return [attrs.evolve(BadRuns(bad=()).run(seed), digest=str(os.getpid())) for seed in chunk]


@pytest.mark.rotating(3)
def test_processes_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks_module, "_CHUNKS_OF_A_PROCESS", 2)
    outcomes = list(run_chunks(chunks_of(range(9), 1), TellsTheProcess(), 2))
    assert sorted(outcome.seed for outcome in outcomes) == list(range(9))
    runs = Counter(outcome.digest for outcome in outcomes)
    assert 3 <= len(runs) <= 6
    assert max(runs.values()) <= 4


class BreaksWhileItIsFilled:
    """A pool whose processes die at once; at the second attempt it is broken before all chunks are handed out."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(self, task: Task, chunk: Chunk, attempt: int) -> Future[list[Outcome]]:
        self.submitted += 1
        if attempt == 1 and self.submitted == 3:
            raise BrokenProcessPool
        future: Future[list[Outcome]] = Future()
        if attempt < 2:
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(task(chunk, attempt))
        return future

    def shutdown(self, **_: bool) -> None:
        pass


def test_what_was_not_handed_out_again_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks_module, "new_pool", lambda _jobs: BreaksWhileItIsFilled())
    outcomes = list(run_chunks(chunks_of(range(8), 1), TellsTheProcess(), 2))
    assert sorted(outcome.seed for outcome in outcomes) == list(range(8))


class AlwaysDies:
    """A task that ends its process at every attempt."""

    def __call__(self, chunk: Chunk, attempt: int) -> list[Outcome]:
        BadRuns().run(DIES)
        raise AssertionError


@pytest.mark.rotating(3)
def test_a_process_that_always_dies_ends_it_and_names_the_seeds() -> None:
    with pytest.raises(CampaignError, match="4 processes died while they ran the seeds 1, 2"):
        list(run_chunks([(1, 2)], AlwaysDies(), 1))


class Raises:
    def __call__(self, chunk: Chunk, attempt: int) -> list[Outcome]:
        raise PermissionError("--out")


def test_what_a_task_raises_comes_out() -> None:
    with pytest.raises(PermissionError, match="--out"):
        list(run_chunks([(1,), (2,)], Raises(), 2))


POOL = """
import os, time
from kraft_trio.simulation.campaign.campaign import new_pool
pool = new_pool(1)
print(pool.submit(os.getpid).result(), flush=True)
time.sleep(600)
"""


@pytest.mark.acceptance
@pytest.mark.rotating(2)
def test_processes_end_with_one_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", POOL], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    wait_until("the process that runs seeds has ended", partial(_has_ended, child))


def _has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    # Nobody may have waited for it.
    command = ["ps", "-o", "stat=", "-p", str(process)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.startswith("Z")
