"""Gateways of simulated nodes, and a client that talks to their applications without HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from kraft_trio.http.exchange import JSON, BodyTooLarge
from kraft_trio.kv import CommandSerde, KvMachine
from kraft_trio.kv.gateway.app import Application, make_app
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.gateway.upkeep import Upkeep
from kraft_trio.kv.space import DEFAULT_QUOTA_BYTES
from kraft_trio.simulation import Cluster


def b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@attrs.define
class KvMachines:
    """Makes the state machine of each node's process, and remembers the newest one."""

    of: dict[int, KvMachine] = attrs.field(factory=dict)

    def __call__(self, node_id: int) -> KvMachine:
        self.of[node_id] = KvMachine()
        return self.of[node_id]


def kv_setup(**fields: Any) -> dict[str, Any]:
    """The fields of a Setup whose nodes have the store."""
    return {"serde": CommandSerde(), "state_machine": KvMachines(), **fields}


@attrs.define
class FakeExchange:
    """An Exchange without HTTP.  The client is gone when `left` is set."""

    method: str
    path: str
    headers: Mapping[str, str]
    parts: list[bytes]
    on_content: Callable[[bytes], object] = lambda content: None
    left: trio.Event = attrs.field(factory=trio.Event)
    status: int = 0
    query: str = ""
    peer_host: str = "client"
    held: int = 0

    def hold(self, size: int) -> None:
        self.held = size

    @property
    def has_client_certificate(self) -> bool:
        return False

    @property
    def has_begun(self) -> bool:
        return self.status > 0

    def header(self, name: bytes) -> bytes | None:
        lower = {key.lower(): value for key, value in self.headers.items()}
        value = lower.get(name.decode())
        return None if value is None else value.encode()

    async def body(self, max_bytes: int) -> bytes:
        body = b"".join(self.parts)
        if len(body) > max_bytes:
            raise BodyTooLarge
        return body

    async def next_part(self) -> bytes:
        return self.parts.pop(0) if self.parts else b""

    async def wait_for_disconnect(self) -> None:
        await self.left.wait()

    async def respond(self, status: int, content: bytes, content_type: bytes = JSON, *, headers: bytes = b"") -> None:
        assert not self.has_begun, "a second response"
        self.status = status
        self.on_content(content)

    async def stream(self, content: bytes, content_type: bytes = JSON) -> None:
        self.status = 200
        self.on_content(content)

    async def stream_pieces(self, size: int, pieces: AsyncIterator[bytes]) -> None:
        content = b"".join([piece async for piece in pieces])
        assert len(content) == size
        await self.stream(content)

    async def end(self) -> None:
        self.status = 200


@attrs.define
class FakeClient:
    """Talks to one application."""

    app: Application
    host: str = "client"

    async def post(
        self, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Send a request as JSON, or bytes as they are, and return status and answer."""
        status, data = await self.raw(path, body, headers)
        return status, json.loads(data)

    async def raw(
        self,
        path: str,
        body: object,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
        query: str = "",
    ) -> tuple[int, bytes]:
        answer = bytearray()
        exchange = FakeExchange(
            method, path, headers or {}, [_body(body)], answer.extend, query=query, peer_host=self.host
        )
        await self.app(exchange)
        return exchange.status, bytes(answer)

    @asynccontextmanager
    async def stream(self, path: str, *bodies: object) -> AsyncIterator[trio.MemoryReceiveChannel[Any]]:
        """Send messages, and receive those of the response until the block is left."""
        to_test, from_app = trio.open_memory_channel[Any](1000)
        exchange = FakeExchange(
            "POST",
            path,
            {},
            list(map(_body, bodies)),
            lambda content: to_test.send_nowait(json.loads(content)),
            peer_host=self.host,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.app, exchange)
            yield from_app
            exchange.left.set()


def _body(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()


@attrs.define
class Gateways:
    """The gateways of the nodes that run."""

    cluster: Cluster
    nursery: trio.Nursery
    services: dict[int, KvService] = attrs.field(factory=dict)
    clients: dict[int, FakeClient] = attrs.field(factory=dict)

    def start(self, node_id: int, keep_revisions: int = 0, quotas: Mapping[int, int] | None = None) -> FakeClient:
        """Serve the node with that id."""
        machines = self.cluster.setup.state_machine
        assert isinstance(machines, KvMachines)
        chance = self.cluster.random(f"gateway-{node_id}")
        service = KvService(self.cluster.nodes[node_id], machines.of[node_id], chance.getrandbits)
        self.services[node_id] = service
        self.clients[node_id] = FakeClient(make_app(service))
        with self.cluster.machines[node_id].in_process():
            self.nursery.start_soon(
                _until_the_node_ends, Upkeep(service, keep_revisions, (quotas or {}).get(node_id, DEFAULT_QUOTA_BYTES))
            )
            self.nursery.start_soon(service.reads.run)
            self.nursery.start_soon(service.changes.run)
        return self.clients[node_id]


async def _until_the_node_ends(upkeep: Upkeep) -> None:
    try:
        await upkeep.run()
    except* Exception:
        pass  # the node was killed


@asynccontextmanager
async def gateways(cluster: Cluster, **options: Any) -> AsyncIterator[Gateways]:
    """Serve all nodes until the block is left."""
    await cluster.wait_for_leader()
    async with trio.open_nursery() as nursery:
        serving = Gateways(cluster, nursery)
        for node_id in cluster.nodes:
            serving.start(node_id, **options)
        yield serving
        nursery.cancel_scope.cancel()
