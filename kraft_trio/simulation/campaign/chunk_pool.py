"""Chunks of seeds over the processes of this machine: a process that dies costs an attempt at its chunk, no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Final

from kraft_trio.simulation.campaign.campaign import AHEAD, CampaignError, new_pool
from kraft_trio.simulation.campaign.chunks import Chunk
from kraft_trio.simulation.campaign.outcome import Outcome

ATTEMPTS: Final = 4
"""How often a chunk is begun before the campaign gives up."""

_CHUNKS_OF_A_PROCESS: Final = 100
"""In the mean, after which all are replaced: what runs leave behind must not add up over thousands."""

Task = Callable[[Chunk, int], list[Outcome]]
"""Runs a chunk; the number is that of the attempt, from 0 on.  Must be picklable."""


def run_chunks(chunks: Iterable[Chunk], task: Task, jobs: int) -> Generator[Outcome, None, None]:
    """Run every chunk, `jobs` at a time, and give the outcomes of each when it has ended.

    When a process dies, the chunks that it may have run are begun anew in others, and nothing besides until they have
    ended: no other chunk can take theirs along.  Raises CampaignError where that does not help, and what `task` raises;
    both end the others, as closing the iterator does.
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
    """Take as many chunks as one pool may run, until it is broken: gives those that were handed out by then."""
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
        pool.shutdown(wait=False, cancel_futures=True)
    return []
