"""The gateway of a node as an actor: the HTTP server with the application, and what the store needs."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from kraft_trio.http.binding import bound
from kraft_trio.http.limits import HttpLimits
from kraft_trio.http.server import HttpServer
from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.gateway.announcement import announce
from kraft_trio.kv.gateway.app import make_app
from kraft_trio.kv.gateway.http_errors import error_body
from kraft_trio.kv.gateway.service import KvNode, KvService
from kraft_trio.kv.gateway.upkeep import Upkeep
from kraft_trio.kv.machine import KvMachine
from kraft_trio.kv.space import DEFAULT_QUOTA_BYTES
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import Endpoint

log = get_logger(__name__)


@asynccontextmanager
async def kv_upkeep(service: KvService, keep_revisions: int, quota_bytes: int) -> AsyncIterator[None]:
    """In this block, the node does its part for the store: leases end, old revisions are compacted, reads begin, and
    watches are woken."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Upkeep(service, keep_revisions, quota_bytes).run)
        nursery.start_soon(service.reads.run)
        nursery.start_soon(service.changes.run)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def kv_gateway(
    node: KvNode,
    machine: KvMachine,
    listener: Endpoint | None,
    advertised: Endpoint | None,
    keep_revisions: int,
    quota_bytes: int = DEFAULT_QUOTA_BYTES,
) -> AsyncIterator[None]:
    """In this block, a node that runs `machine` serves the gateway on `listener`.

    Without `listener`, the node only does its part for the store.  Raises ConfigError if the address cannot be bound.
    """
    service = KvService(node, machine, secrets.randbits)
    async with kv_upkeep(service, keep_revisions, quota_bytes):
        if listener is None:
            yield
            return
        listening = bound("kraft.kv.listener", listener)
        endpoint = Endpoint(listener.host, listening.getsockname()[1])
        server = HttpServer(
            make_app(service),
            trio.SocketListener(trio.socket.from_stdlib_socket(listening)),
            HttpLimits(node.config.max_connections),
            _refusal,
        )
        log.info("listening", listener="kv", endpoint=str(endpoint))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            async with trio.open_nursery() as announcing:
                announcing.start_soon(announce, service, f"http://{advertised or endpoint}")
                yield
                announcing.cancel_scope.cancel()
            server.end()


def _refusal(reason: str) -> bytes:
    return error_body(KvError(Code.INVALID_ARGUMENT, reason))
