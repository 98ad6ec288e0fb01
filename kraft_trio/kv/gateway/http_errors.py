"""Errors as the gateway's JSON, with the HTTP statuses of grpc-gateway."""

from __future__ import annotations

from typing import Final

from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.proto_json import to_json

HTTP_STATUS: Final = {
    Code.CANCELLED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
}


def error_body(error: KvError) -> bytes:
    return to_json({"error": error.message, "code": int(error.code), "message": error.message})


def stream_error(error: KvError) -> bytes:
    """An error as the last message of a stream that has begun."""
    status = HTTP_STATUS[error.code]
    content = {"grpc_code": int(error.code), "http_code": status, "message": error.message, "http_status": str(status)}
    return to_json({"error": content}) + b"\n"
