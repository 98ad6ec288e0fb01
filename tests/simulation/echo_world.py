"""Hosts on a simulated network that send requests to each other and answer them, to test the network alone."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from struct import pack

import attrs
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.network.simulated_network import SimulatedNetwork
from kraft_trio.wire.api import FETCH, Api
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.network import ImmediateStream

LATENCY_S = 0.01
BROKEN = (NetworkError, trio.BrokenResourceError, trio.ClosedResourceError)

ANSWERED, HEARD, NOTHING = "answered", "heard", "nothing"
"""Outcomes of a request in time: it was answered, it arrived but was not answered, or it was lost."""


def request_frame(correlation_id: int, api: Api = FETCH, body: bytes = b"body") -> bytes:
    return pack(">ihhi", 8 + len(body), api.key, api.max_version, correlation_id) + body


def answer_frame(correlation_id: int, body: bytes = b"answer") -> bytes:
    return pack(">ii", 4 + len(body), correlation_id) + body


@attrs.define(eq=False)
class EchoWorld:
    hosts: tuple[str, ...]
    seed: int = 0
    network: SimulatedNetwork = attrs.field(init=False)
    sent: list[Message] = attrs.field(factory=list)
    delivered: list[Message] = attrs.field(factory=list)
    heard: list[tuple[str, int]] = attrs.field(factory=list)
    """By whom, and the correlation id."""
    asked: int = 0
    nursery: trio.Nursery = attrs.field(init=False)
    _streams: dict[tuple[str, str], ImmediateStream] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.network = SimulatedNetwork(random.Random(self.seed), on_message=self._message)
        self.network.set_default_link(latency=Latency.constant(LATENCY_S))

    def _message(self, message: Message) -> None:
        (self.delivered if message.delivered else self.sent).append(message)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[EchoWorld]:
        async with trio.open_nursery() as self.nursery:
            for host in self.hosts:
                await self.serve_soon(host)
            yield self
            self.nursery.cancel_scope.cancel()

    async def serve(self, host: str, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        listener = await self.network.seen_from(host).listen(Endpoint(host, 9093))
        task_status.started()
        try:
            while True:
                self.nursery.start_soon(self._answer, host, await listener.accept())
        except trio.ClosedResourceError:
            pass

    async def serve_soon(self, host: str) -> None:
        """Start its server; returns once it listens."""
        await self.nursery.start(self.serve, host)

    async def _answer(self, host: str, stream: ImmediateStream) -> None:
        reader = FrameReader(stream, 2**20)
        try:
            async with stream:
                while (frame := await reader.read()) is not None:
                    correlation_id = int.from_bytes(frame[4:8], "big")
                    self.heard.append((host, correlation_id))
                    await stream.send_all(answer_frame(correlation_id))
        except BROKEN:
            pass

    async def connect(self, source: str, target: str) -> ImmediateStream:
        return await self.network.seen_from(source).connect(Endpoint(target, 9093))

    async def ask(
        self, source: str, target: str, *, reconnect: bool = False, within_s: float = 1.0, api: Api = FETCH
    ) -> str:
        """Ask over the connection there is; `reconnect` opens another."""
        self.asked = number = self.asked + 1
        with trio.move_on_after(within_s):
            try:
                if reconnect or (source, target) not in self._streams:
                    self._streams[source, target] = await self.connect(source, target)
                stream = self._streams[source, target]
                await stream.send_all(request_frame(number, api))
                reader = FrameReader(stream, 2**20)
                while (frame := await reader.read()) is not None:
                    if int.from_bytes(frame[:4], "big") == number:
                        return ANSWERED
            except BROKEN:
                pass
        return HEARD if (target, number) in self.heard else NOTHING

    async def reachability(self, *, reconnect: bool = False) -> dict[str, str]:
        """What comes of asking, by "source target", for all pairs."""
        return {
            f"{source} {target}": await self.ask(source, target, reconnect=reconnect)
            for source in self.hosts
            for target in self.hosts
            if source != target
        }

    async def unreachable(self, *, reconnect: bool = False) -> set[str]:
        """The pairs of which the first gets no answer from the second."""
        return {pair for pair, outcome in (await self.reachability(reconnect=reconnect)).items() if outcome != ANSWERED}
