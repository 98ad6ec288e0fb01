"""The application of the gateway: which endpoint answers which request."""

from __future__ import annotations

import attrs

from kraft_trio.http.exchange import BodyTooLarge, Disconnected, Endpoint, Exchange
from kraft_trio.http.foreign_pages import PageGuard
from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.gateway.cluster import ClusterInfo
from kraft_trio.kv.gateway.elections import Elections
from kraft_trio.kv.gateway.endpoints import KeepAliveEndpoint, ObserveEndpoint, UnaryEndpoint, WatchEndpoint
from kraft_trio.kv.gateway.http_errors import TEXT, error_body
from kraft_trio.kv.gateway.openapi import openapi_document
from kraft_trio.kv.gateway.operations import KEEP_ALIVE, OBSERVE, PREFIXES, WATCH, operations_of
from kraft_trio.kv.gateway.probes import Probes
from kraft_trio.kv.gateway.read_turns import asker
from kraft_trio.kv.gateway.request_stream import MAX_REQUEST_BYTES
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.proto_json import dumps, to_json


@attrs.frozen
class Application:
    """Gives each request to its endpoint, which is found by method and path."""

    routes: dict[tuple[str, str], Endpoint]
    guard: PageGuard

    async def __call__(self, exchange: Exchange) -> None:
        """Raises what goes wrong in an endpoint, after it has told the client."""
        foreign = self.guard.refusal(exchange)
        if foreign is not None:
            await exchange.respond(403, error_body(KvError(Code.PERMISSION_DENIED, foreign)))
            return
        asker.set(exchange.peer_host)
        endpoint = self.routes.get((exchange.method, exchange.path), self._refuse)
        try:
            await endpoint(exchange)
        except Disconnected:
            raise
        except Exception as error:
            if not exchange.has_begun:
                content = error_body(KvError(Code.INTERNAL, f"internal error: {type(error).__name__}"))
                await exchange.respond(500, content)
            raise

    async def _refuse(self, exchange: Exchange) -> None:
        """Answer what has no endpoint, as etcd does: below its prefixes with JSON, and elsewhere with a text."""
        try:
            await exchange.body(MAX_REQUEST_BYTES)
        except BodyTooLarge:
            pass
        path = exchange.path
        if ("GET", path) in self.routes:
            await exchange.respond(405, b"Method Not Allowed\n", TEXT, headers=b"allow: GET, HEAD\r\n")
        elif ("POST", path) in self.routes:
            await exchange.respond(501, error_body(KvError(Code.UNIMPLEMENTED, "Method Not Allowed")))
        elif path.startswith(tuple(f"{prefix}/" for prefix in PREFIXES)):
            await exchange.respond(404, error_body(KvError(Code.NOT_FOUND, "Not Found")))
        else:
            await exchange.respond(404, b"404 page not found\n", TEXT)


def make_app(service: KvService) -> Application:
    """Make the application of one node."""
    info = ClusterInfo(service)
    operations = operations_of(service)
    document = to_json(openapi_document(operations))

    async def version(exchange: Exchange) -> None:
        await exchange.respond(200, dumps(info.version()))

    async def openapi(exchange: Exchange) -> None:
        await exchange.respond(200, document)

    posted: dict[str, Endpoint] = {
        path: UnaryEndpoint(operation, service.reads) for operation in operations for path in operation.paths
    }
    posted[WATCH.path] = WatchEndpoint(service)
    posted[KEEP_ALIVE.path] = KeepAliveEndpoint(service)
    posted[OBSERVE.path] = ObserveEndpoint(Elections(service))
    fetched: dict[str, Endpoint] = {
        **{"/version": version, "/openapi.json": openapi},
        **Probes(service, info).endpoints(),
    }
    routes = {("POST", prefix + path): endpoint for prefix in PREFIXES for path, endpoint in posted.items()}
    routes |= {(method, path): endpoint for method in ("GET", "HEAD") for path, endpoint in fetched.items()}

    return Application(routes, PageGuard(service.node.config.http_names(), has_pages=False))
