"""A lock with fencing tokens, which outlives an owner that dies: python -m examples.lock"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import msgpack
import trio

from examples.local_quorum import local_quorum
from kraft_trio import Committed, MsgpackSerde, NewRecord, Node, Record


@attrs.frozen
class Acquire:
    ttl_ms: int


@attrs.frozen
class Release:
    token: int


class Lock:
    def __init__(self) -> None:
        self.token, self.end_ms, self.now_ms = 0, 0, 0  # time is that of the records
        self.released = trio.Event()

    def apply(self, record: Committed[Acquire | Release]) -> int | None:
        """Return the token of a new owner, which is the record's offset, or None if the lock is held."""
        self.now_ms = max(self.now_ms, record.timestamp_ms)
        match record.value:
            case Acquire(ttl_ms) if self.now_ms >= self.end_ms:
                self.token, self.end_ms = record.offset, self.now_ms + ttl_ms
                return self.token
            case Release(token) if token == self.token:
                self.end_ms = 0
                self.released.set()
                self.released = trio.Event()
        return None

    def save(self) -> Sequence[NewRecord]:
        return [NewRecord(msgpack.packb([self.token, self.end_ms, self.now_ms]))]

    async def load(self, records: AsyncIterator[Record]) -> None:
        self.token, self.end_ms, self.now_ms = msgpack.unpackb((await anext(records)).value or b"")


@asynccontextmanager
async def locked(node: Node[Acquire | Release, int | None], lock: Lock, ttl_ms: int) -> AsyncIterator[int]:
    """Hold the lock in the block, which gets the token and ends after `ttl_ms` with TooSlowError."""
    while True:
        released, deadline = lock.released, trio.current_time() + ttl_ms / 1000
        token = await node.execute(Acquire(ttl_ms))
        if token:
            break
        with trio.move_on_after(max(0, lock.end_ms - lock.now_ms) / 1000):  # it may be released by now
            await released.wait()
    try:
        with trio.fail_at(deadline):
            yield token
    finally:
        await node.execute(Release(token))  # if this is cancelled, the lock ends after `ttl_ms`


async def print_page(node: Node[Acquire | Release, int | None], lock: Lock) -> None:
    async with locked(node, lock, ttl_ms=10_000) as token:
        print(f"token {token}: node {node.key.id} prints")  # a printer should refuse a token below one it has seen


async def main() -> None:
    machines = [Lock() for _ in range(3)]
    async with local_quorum(MsgpackSerde(Acquire, Release), machines) as nodes, trio.open_nursery() as nursery:
        print(f"token {await nodes[0].execute(Acquire(ttl_ms=200))}: an owner dies")
        for node, lock in zip(nodes, machines, strict=True):
            nursery.start_soon(print_page, node, lock)


if __name__ == "__main__":
    trio.run(main)
