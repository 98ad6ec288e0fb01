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


TEXT: Final = b"text/plain; charset=utf-8"


def error_body(error: KvError) -> bytes:
    """etcd's error since 3.6 with the field `error` of before, which older clients read."""
    return to_json({"error": error.message, "code": int(error.code), "message": error.message})


def stream_error(error: KvError) -> bytes:
    """An error as the last message of a stream that has begun, with the fields of old and new gateways."""
    status = HTTP_STATUS[error.code]
    code = int(error.code)
    content = {
        **{"code": code, "message": error.message},
        **{"grpc_code": code, "http_code": status, "http_status": str(status)},
    }
    return to_json({"error": content}) + b"\n"
