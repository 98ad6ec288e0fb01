"""Seeds in chunks: what one task of a campaign does, on one machine or on many, and how large it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kraft_trio.simulation.campaign.isolation import forked, guarded
from kraft_trio.simulation.campaign.outcome import Outcome

Chunk = tuple[int, ...]
"""The seeds of one task, in order."""

_WORK_S: Final = 1.0
"""How long a task should take: what it costs to hand one out is about 10 ms."""

_SEED_S: Final = 0.15
_SEED_S_PER_VIRTUAL_S: Final = 0.03
"""What a run costs, about: making its cluster and recovering from its faults; each second of faults."""

_CHUNKS_OF_A_CORE: Final = 8
"""How many there are at least where there are seeds enough, so that no core waits long for the last one."""

_MOST_CHUNKS: Final = 20_000
"""What a scheduler of tasks copes with."""


def chunk_size(seeds: int, duration_us: int, cores: int) -> int:
    """How many of so many seeds, with that long a faulty time, should be one task."""
    for_work = _WORK_S / (_SEED_S + _SEED_S_PER_VIRTUAL_S * duration_us / 1e6)
    for_balance = seeds / (cores * _CHUNKS_OF_A_CORE)
    return max(1, round(min(for_work, for_balance)), -(-seeds // _MOST_CHUNKS))


def chunks_of(seeds: Sequence[int], size: int) -> Iterator[Chunk]:
    """The seeds in their order, `size` at a time."""
    for begin in range(0, len(seeds), size):
        yield tuple(seeds[begin : begin + size])


def run_chunk(seeds: Chunk, run_seed: Callable[[int], Outcome], *, limit_s: float, attempt: int) -> Iterator[Outcome]:
    """The outcome of every seed, bad ones included.

    At an `attempt` above 0 each runs in a process of its own: one of them has ended the process of the attempt before.
    """
    isolate = forked if attempt else guarded
    for seed in seeds:
        yield isolate(seed, run_seed, limit_s)
