"""Seeds in chunks: how many a chunk has, and how chunks run in several processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Final

from kraft_trio.simulation.campaign.campaign import AHEAD, CampaignError, end_pool, new_pool
from kraft_trio.simulation.campaign.isolation import forked, guarded
from kraft_trio.simulation.campaign.outcome import Outcome

Chunk = tuple[int, ...]
"""The seeds of one task, in order."""

_WORK_S: Final = 1.0
"""How long a task should take; handing one out costs about 10 ms."""

_SEED_S: Final = 0.15
_SEED_S_PER_VIRTUAL_S: Final = 0.03
"""The approximate cost of a run in CPU seconds: a fixed part for the cluster and its recovery, and a part per second of
faults."""

_CHUNKS_OF_A_CORE: Final = 8
"""The minimum number of chunks, if there are enough seeds, so that no core waits long for the last one."""

_MOST_CHUNKS: Final = 20_000
"""The most tasks that a scheduler copes with."""


def chunk_size(seeds: int, duration_us: int, cores: int) -> int:
    """How many seeds one task should have."""
    for_work = _WORK_S / (_SEED_S + _SEED_S_PER_VIRTUAL_S * duration_us / 1e6)
    for_balance = seeds / (cores * _CHUNKS_OF_A_CORE)
    return max(1, round(min(for_work, for_balance)), -(-seeds // _MOST_CHUNKS))


def chunks_of(seeds: Sequence[int], size: int) -> Iterator[Chunk]:
    """The seeds in their order, `size` at a time."""
    for begin in range(0, len(seeds), size):
        yield tuple(seeds[begin : begin + size])


def run_chunk(seeds: Chunk, run_seed: Callable[[int], Outcome], *, limit_s: float, attempt: int) -> Iterator[Outcome]:
    """Run the seeds of a chunk and yield every outcome, including failures.

    After the first attempt each seed runs in a process of its own, because one of them has ended the process of an
    earlier attempt.
    """
    isolate = forked if attempt else guarded
    for seed in seeds:
        yield isolate(seed, run_seed, limit_s)


ATTEMPTS: Final = 4
"""How often a chunk is tried before the campaign gives up."""

_CHUNKS_OF_A_PROCESS: Final = 100
"""The average number of chunks before the processes are replaced, so that leftovers do not add up over thousands."""

Task = Callable[[Chunk, int], list[Outcome]]
"""Runs a chunk; the number is that of the attempt, from 0.  It must be picklable."""


def run_chunks(chunks: Iterable[Chunk], task: Task, jobs: int) -> Generator[Outcome, None, None]:
    """Run every chunk, `jobs` at a time, and yield its outcomes when it has ended.

    If a process dies, the chunks that it may have run begin again in new processes, and no other chunk runs until they
    have ended.  Raises CampaignError if that does not help, and whatever `task` raises.  Both end the other chunks, as
    closing the iterator does.
    """
    waiting = deque(chunks)
    while waiting:
        suspects = yield from _until_a_process_dies(waiting, task, jobs, 0)
        for attempt in range(1, ATTEMPTS):
            again = deque(suspects)
            suspects = yield from _until_a_process_dies(again, task, jobs, attempt)
            suspects += again
        if suspects:
            seeds = ", ".join(str(seed) for chunk in suspects for seed in chunk)
            raise CampaignError(f"{ATTEMPTS} processes died while they ran the seeds {seeds}")


def _until_a_process_dies(
    waiting: deque[Chunk], task: Task, jobs: int, attempt: int
) -> Generator[Outcome, None, list[Chunk]]:
    """Run chunks in one pool until it has run its share or is broken; returns the chunks that were handed out by
    then."""
    if not waiting:
        return []
    left = jobs * _CHUNKS_OF_A_PROCESS
    pool = new_pool(jobs)
    running: dict[Future[list[Outcome]], Chunk] = {}
    try:
        while running or (waiting and left):
            while waiting and left and len(running) < jobs * AHEAD:
                running[pool.submit(task, waiting[0], attempt)] = waiting[0]
                waiting.popleft()
                left -= 1
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=running.__getitem__):
                outcomes = future.result()
                del running[future]
                yield from outcomes
    except BrokenProcessPool:
        return sorted(running.values())
    finally:
        end_pool(pool, is_idle=not running)
    return []
