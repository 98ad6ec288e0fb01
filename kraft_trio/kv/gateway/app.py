"""The ASGI application of the gateway."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.gateway.cluster import ClusterInfo
from kraft_trio.kv.gateway.elections import Elections
from kraft_trio.kv.gateway.endpoints import KeepAliveEndpoint, ObserveEndpoint, UnaryEndpoint, WatchEndpoint
from kraft_trio.kv.gateway.http_errors import error_body, error_response, json_response
from kraft_trio.kv.gateway.openapi import openapi_document
from kraft_trio.kv.gateway.operations import KEEP_ALIVE, OBSERVE, PREFIXES, WATCH, operations_of
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.proto_json import dumps, to_json


def make_app(service: KvService) -> Starlette:
    """Make the application of one node."""
    info = ClusterInfo(service)
    operations = operations_of(service)
    document = to_json(openapi_document(operations))

    async def version(_: Request) -> Response:
        return json_response(dumps(info.version()))

    async def health(_: Request) -> Response:
        found = await info.health()
        content = to_json({"health": found.health, "reason": found.reason})
        return json_response(content, 200 if found.health == "true" else 503)

    async def openapi(_: Request) -> Response:
        return json_response(document)

    endpoints: dict[str, object] = {
        path: UnaryEndpoint(operation) for operation in operations for path in operation.paths
    }
    endpoints[WATCH.path] = WatchEndpoint(service)
    endpoints[KEEP_ALIVE.path] = KeepAliveEndpoint(service)
    endpoints[OBSERVE.path] = ObserveEndpoint(Elections(service))
    routes = [Route("/version", version), Route("/health", health), Route("/openapi.json", openapi)]
    routes += [
        Route(prefix + path, endpoint, methods=["POST"])  # type: ignore[arg-type]
        for prefix in PREFIXES
        for path, endpoint in endpoints.items()
    ]
    return Starlette(routes=routes, exception_handlers={404: _not_found, 405: _not_found, 500: _internal})


async def _not_found(request: Request, _: Exception) -> Response:
    error = KvError(Code.UNIMPLEMENTED if request.url.path.startswith(PREFIXES) else Code.NOT_FOUND, "Not Found")
    return json_response(error_body(error), 404)


async def _internal(_: Request, error: Exception) -> Response:
    return error_response(KvError(Code.INTERNAL, f"internal error: {type(error).__name__}"))
