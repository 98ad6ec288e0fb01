"""Gateways of simulated nodes, and a client that talks to their applications without HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from starlette.types import Message

from kraft_trio.kv import CommandSerde, KvMachine
from kraft_trio.kv.gateway.app import make_app
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.gateway.upkeep import Upkeep
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
class AsgiClient:
    """Talks to one application."""

    app: Any

    async def post(
        self, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Send a request as JSON, or bytes as they are, and return status and answer."""
        status, data = await self.raw(path, body, headers)
        return status, json.loads(data)

    async def raw(
        self, path: str, body: object, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> tuple[int, bytes]:
        status, data = 0, b""

        async def send(message: Message) -> None:
            nonlocal status, data
            status = message.get("status", status)
            data += message.get("body", b"")

        sent = [_body(body)]

        async def receive() -> Message:
            if not sent:
                await trio.sleep_forever()
            return sent.pop()

        await self.app(_scope(path, headers or {}, method), receive, send)
        return status, data

    @asynccontextmanager
    async def stream(self, path: str, *bodies: object) -> AsyncIterator[trio.MemoryReceiveChannel[Any]]:
        """Send messages, and receive those of the response until the block is left."""
        to_test, from_app = trio.open_memory_channel[Any](1000)
        sent = [_body(body) for body in bodies]
        sent[:-1] = [{**message, "more_body": True} for message in sent[:-1]]
        sent.reverse()
        left = trio.Event()

        async def send(message: Message) -> None:
            if message.get("body"):
                to_test.send_nowait(json.loads(message["body"]))

        async def receive() -> Message:
            if sent:
                return sent.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.app, _scope(path, {}), receive, send)
            yield from_app
            left.set()


def _body(body: object) -> Message:
    data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    return {"type": "http.request", "body": data, "more_body": False}


def _scope(path: str, headers: Mapping[str, str], method: str = "POST") -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }


@attrs.define
class Gateways:
    """The gateways of the nodes that run."""

    cluster: Cluster
    nursery: trio.Nursery
    services: dict[int, KvService] = attrs.field(factory=dict)
    clients: dict[int, AsgiClient] = attrs.field(factory=dict)

    def start(self, node_id: int, keep_revisions: int = 0) -> AsgiClient:
        """Serve the node with that id."""
        machines = self.cluster.setup.state_machine
        assert isinstance(machines, KvMachines)
        chance = self.cluster.random(f"gateway-{node_id}")
        service = KvService(self.cluster.nodes[node_id], machines.of[node_id], chance.getrandbits)
        self.services[node_id] = service
        self.clients[node_id] = AsgiClient(make_app(service))
        with self.cluster.machines[node_id].in_process():
            self.nursery.start_soon(_until_the_node_ends, Upkeep(service, keep_revisions))
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
