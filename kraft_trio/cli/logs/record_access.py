"""Appends records to a running quorum's log, and reads them, for one command."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import attrs
import trio

from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.client.leader_finder import LeaderFinder
from kraft_trio.client.log_client import LogClient
from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.storage.batches.batch import NewRecord, Record
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork

T = TypeVar("T")

_CLIENT_ID = "kraft-records"
_ANSWER_MS = 2000
_ASK_AGAIN_S = 0.2


@attrs.frozen
class LogBounds:
    """The topic, and the committed part of its log: from `start` (inclusive) to `end` (exclusive)."""

    topic_name: str
    start: int
    end: int


@attrs.frozen
class RecordAccess:
    """One quorum, and how long to wait for it."""

    nodes: Sequence[Endpoint]
    """Any nodes of the quorum."""
    timeout_ms: int
    network: Network = attrs.field(factory=TcpNetwork)

    async def bounds(self) -> LogBounds:
        """Ask the leader.  Raises NetworkError if no leader answers in time."""
        return await self._ask_leader(_bounds_of)

    async def _ask_leader(self, ask: Callable[[LeaderConnection], Awaitable[T]]) -> T:
        finder = LeaderFinder(self.nodes, _CLIENT_ID, request_timeout_ms=_ANSWER_MS, network=self.network)
        deadline = trio.current_time() + self.timeout_ms / 1000
        while True:
            try:
                leader = await finder.find(trusts_metadata=True)
                try:
                    return await ask(leader)
                finally:
                    await leader.aclose()
            except NetworkError:
                if trio.current_time() + _ASK_AGAIN_S > deadline:
                    raise
            await trio.sleep(_ASK_AGAIN_S)

    async def append(self, batches: AsyncIterator[Sequence[NewRecord]]) -> AsyncGenerator[int, None]:
        """Yield the offset of each record once it has committed.  Raises the errors of `LogClient.produce`."""
        async with self._client(await self._ask_leader(_topic_of)) as client:
            async for batch in batches:
                for offset in await client.produce(batch, self.timeout_ms):
                    yield offset

    async def read(self, from_offset: int | None, *, follow: bool) -> AsyncGenerator[Record, None]:
        """Yield the committed records from `from_offset` (inclusive) on, by default from the log's start.

        Ends where the committed log ended at the beginning, or never with `follow`.  Raises NetworkError if there is no
        leader for the time limit, and the errors of RecordReader.
        """
        bounds = await self.bounds()
        until = None if follow else bounds.end
        async with self._client(bounds.topic_name) as client:
            reader = client.read(bounds.start if from_offset is None else from_offset, until)
            while True:
                with trio.move_on_after(float("inf") if follow else self.timeout_ms / 1000) as patience:
                    try:
                        record = await anext(reader)
                    except StopAsyncIteration:
                        return
                if patience.cancelled_caught:
                    raise NetworkError(f"no answer within {self.timeout_ms} ms")
                yield record

    def _client(self, topic_name: str) -> LogClient:
        return LogClient(self.nodes, topic_name=topic_name, client_id=_CLIENT_ID, network=self.network)


async def _topic_of(leader: LeaderConnection) -> str:
    """Needs no permission to read."""
    return leader.topic_name


async def _bounds_of(leader: LeaderConnection) -> LogBounds:
    answer = await leader.fetch(0, max_bytes=1)
    if answer.high_watermark < 0:
        raise NetworkError(f"{leader.endpoint}: the leader has not committed anything in its epoch yet")
    return LogBounds(leader.topic_name, max(answer.log_start_offset, 0), answer.high_watermark)
