"""Runs coroutines that never wait, and a stream that has everything already."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from itertools import cycle
from typing import Any, TypeVar

from kraft_trio.wire.network import ImmediateStream

T = TypeVar("T")


class Given(ImmediateStream):
    """Delivers the data in pieces of these sizes, in turn, and then ends.  Takes whatever is sent."""

    def __init__(self, data: bytes, pieces: Sequence[int]) -> None:
        self._left = memoryview(data)
        self._pieces = cycle(pieces)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        size = min(next(self._pieces), max_bytes or 2**30)
        piece, self._left = bytes(self._left[:size]), self._left[size:]
        return piece

    async def receive_into(self, buffer: memoryview) -> int:
        piece = await self.receive_some(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def send_now(self, *parts: bytes | memoryview) -> int:
        return sum(map(len, parts))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        pass

    async def wait_send_all_might_not_block(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it to its end."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    coroutine.close()
    raise AssertionError("the coroutine waits for something")
