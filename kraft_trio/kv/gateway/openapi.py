"""The OpenAPI document of the gateway, made from the table of operations and their messages."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from kraft_trio.http.exchange import JSON
from kraft_trio.kv.gateway.http_errors import TEXT
from kraft_trio.kv.gateway.operations import STREAMS, Operation, Stream
from kraft_trio.kv.shapes import Field, Kind, fields_of

_ERROR: Final = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "code": {"type": "integer"}, "message": {"type": "string"}},
}
_REQUEST_ID: Final = {
    "name": "Kraft-Request-Id",
    "in": "header",
    "required": False,
    "description": "A UUID of version 7.  A request that is sent again with the same id is executed once.",
    "schema": {"type": "string", "format": "uuid"},
}


def openapi_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document, for the newest prefix."""
    schemas: dict[str, Any] = {"Error": _ERROR}
    paths: dict[str, Any] = {
        "/version": _get("The version of etcd's API that this is."),
        "/health": _get("Whether a read succeeds on this node: a linearizable one, unless `serializable=true`."),
        "/livez": _get("Whether the node works: `ok`, or the checks that fail.", TEXT),
        "/readyz": _get("Whether the node can serve: `ok`, or the checks that fail.", TEXT),
        "/metrics": _get("The metrics of the node, for Prometheus.", TEXT),
    }
    everything: list[Operation | Stream] = [*operations, *STREAMS]
    for operation in everything:
        paths[f"/v3{operation.path}"] = {"post": _post(operation, schemas)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "kraft-trio: key-value store with etcd's v3 JSON gateway", "version": _version()},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _version() -> str:
    try:
        return version("kraft-trio")
    except PackageNotFoundError:
        return "unknown"


def _get(summary: str, content_type: bytes = JSON) -> dict[str, Any]:
    kind = "object" if content_type == JSON else "string"
    answer = {"description": "", "content": {content_type.decode(): {"schema": {"type": kind}}}}
    return {"get": {"summary": summary, "responses": {"200": answer}}}


def _post(operation: Operation | Stream, schemas: dict[str, Any]) -> dict[str, Any]:
    schema = _reference(operation.response, schemas)
    described = "The answer."
    if isinstance(operation, Stream):
        schema = {"type": "object", "properties": {"result": schema, "error": _ERROR}}
        described = "A stream of these objects, each followed by a newline."
    post: dict[str, Any] = {
        "operationId": operation.path.strip("/").replace("/", "_"),
        "tags": [operation.path.split("/")[1]],
        "summary": inspect.getdoc(operation.request) or "",
        "requestBody": {"content": {"application/json": {"schema": _reference(operation.request, schemas)}}},
        "responses": {
            "200": {"description": described, "content": {"application/json": {"schema": schema}}},
            "default": {
                "description": "An error, with gRPC's code.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if isinstance(operation, Operation) and operation.is_write:
        post["parameters"] = [_REQUEST_ID]
    return post


def _reference(cls: type[Any], schemas: dict[str, Any]) -> dict[str, Any]:
    name = cls.__name__
    if name not in schemas:
        schemas[name] = None  # messages may contain themselves
        properties = {field.json_name: _field_schema(field, schemas) for field in fields_of(cls)}
        schemas[name] = {"type": "object", "description": inspect.getdoc(cls) or "", "properties": properties}
    return {"$ref": f"#/components/schemas/{name}"}


def _field_schema(field: Field, schemas: dict[str, Any]) -> dict[str, Any]:
    one = _schema(field, schemas)
    return {"type": "array", "items": one} if field.is_repeated else one


def _schema(field: Field, schemas: dict[str, Any]) -> dict[str, Any]:
    if field.kind is Kind.MESSAGE:
        return _reference(field.cls, schemas)
    if field.kind is Kind.ENUM:
        return {"type": "string", "enum": list(field.cls.__members__)}
    return dict(_SIMPLE[field.kind])


_SIMPLE: Final[dict[Kind, dict[str, Any]]] = {
    Kind.INTEGER: {"type": "string", "format": "int64"},
    Kind.UNSIGNED: {"type": "string", "format": "uint64"},
    Kind.BYTES: {"type": "string", "format": "byte"},
    Kind.TRUTH: {"type": "boolean"},
    Kind.TEXT: {"type": "string"},
}
