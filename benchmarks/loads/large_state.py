"""A state machine whose state is as large as is asked for, and takes no memory: for `kraft.state.machine`.

The environment says how large: STATE_BYTES and RECORD_BYTES, see below.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import TypeVar

from kraft_trio.storage.batches.batch import NewRecord, Record

STATE_BYTES = "BENCHMARK_STATE_BYTES"
RECORD_BYTES = "BENCHMARK_RECORD_BYTES"
"""On average: the values are between half and one and a half times as large."""
DIFFERENT_VALUES = 1000

T = TypeVar("T")


def different_values(record_bytes: int) -> list[bytes]:
    """The same ones each time."""
    source = random.Random(record_bytes)
    sizes = [source.randint(record_bytes // 2, record_bytes * 3 // 2) for _ in range(DIFFERENT_VALUES)]
    return [source.randbytes(size) for size in sizes]


def repeated(state: Sequence[T], total_bytes: int, values: Sequence[bytes]) -> Iterator[T]:
    """A state that holds these values, as often as it takes for at least that many bytes of them."""
    return chain.from_iterable(repeat(state, total_bytes // sum(map(len, values)) + 1))


def values_of(total_bytes: int, record_bytes: int) -> Iterator[bytes]:
    """At least that many bytes of values; the same ones each time."""
    values = different_values(record_bytes)
    return repeated(values, total_bytes, values)


class LargeState:
    """Remembers nothing of what it is given."""

    def __init__(self) -> None:
        self._total_bytes = int(os.environ[STATE_BYTES])
        self._record_bytes = int(os.environ[RECORD_BYTES])

    async def on_commit(self, records: Sequence[Record]) -> None:
        pass

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        async for _ in records:
            pass

    def save(self) -> Iterable[NewRecord | bytes]:
        return values_of(self._total_bytes, self._record_bytes)
