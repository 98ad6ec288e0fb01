"""Requests and responses with their headers, as whole frames (KIP-482 for the header versions).

Encoding gives the frame with its four bytes of length; decoding takes it without them, as FrameReader gives it.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, TypeVar

import attrs

from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.wire.api import APIS
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.schema import EntityShape
from kraft_trio.wire.schema_reader import Cursor, entity_reader
from kraft_trio.wire.schema_writer import Chunks, unsigned_varint

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

_REQUEST_HEADER: Final = Struct(">hhih")
"""API key, version, correlation id, length of the client id (-1 for null; never compact, even in header version 2)."""

_REQUEST_START: Final = Struct(">hhi")
"""The part of it that every version of every API has."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_NO_TAGGED_FIELDS: Final = unsigned_varint(0)
_skip_tagged_fields: Final = entity_reader(EntityShape(name="header", flexible=True, fields=(), tagged=()))


@attrs.frozen
class RequestHeader:
    """Who asks for what: the API and its version, the client's number for the request, and the client's name."""

    api: Api[Any, Any]
    version: int
    correlation_id: int
    client_id: str | None = None


class UnsupportedRequestError(UnsupportedVersionError):
    """A request of an API or version that we do not serve; what is needed to answer it."""

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        api = APIS.get(api_key)
        served = "an API we do not serve" if api is None else f"served are {api.min_version} to {api.max_version}"
        name = f"API key {api_key}" if api is None else f"{api.name} ({api_key})"
        super().__init__(f"{name}, version {version}: {served}")
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id


def encode_request(
    api: Api[RequestT, ResponseT], version: int, correlation_id: int, client_id: str | None, request: RequestT
) -> bytes:
    """The frame of a request, length included.  Raises UnsupportedVersionError where the version cannot carry it."""
    raw_client_id = b"" if client_id is None else client_id.encode()
    client_id_length = -1 if client_id is None else len(raw_client_id)
    chunks = [_REQUEST_HEADER.pack(api.key, version, correlation_id, client_id_length), raw_client_id]
    if api.request_header_version(version) == 2:
        chunks.append(_NO_TAGGED_FIELDS)
    api.encode_request(request, version, chunks)
    return _framed(chunks)


def decode_request(frame: bytes) -> tuple[RequestHeader, Any]:
    """Header and request of a frame.

    Raises UnsupportedRequestError for an API or version that is not served, ProtocolError for anything else.
    """
    if len(frame) < _REQUEST_START.size:
        raise ProtocolError(f"request header: {len(frame)} bytes, at least {_REQUEST_START.size} were expected")
    api_key, version, correlation_id = _REQUEST_START.unpack_from(frame)
    api = APIS.get(api_key)
    if api is None or not api.supports(version):
        raise UnsupportedRequestError(api_key, version, correlation_id)
    cursor = Cursor(frame, _REQUEST_START.size)
    client_id = _read_client_id(cursor)
    if api.request_header_version(version) == 2:
        _skip_tagged_fields(cursor)
    return RequestHeader(api, version, correlation_id, client_id), api.decode_request(cursor, version)


def _read_client_id(cursor: Cursor) -> str | None:
    if cursor.remaining < _INT16.size:
        raise ProtocolError("request header: the frame ends before client_id")
    (length,) = _INT16.unpack_from(cursor.data, cursor.position)
    cursor.position += _INT16.size
    if length == -1:
        return None
    raw = cursor.take(length, "request header: client_id")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ProtocolError(f"request header: client_id: {raw[:32]!r} is not UTF-8") from None


def encode_response(api: Api[RequestT, ResponseT], version: int, correlation_id: int, response: ResponseT) -> bytes:
    """The frame of a response, length included."""
    chunks = [_INT32.pack(correlation_id)]
    if api.response_header_version(version) == 1:
        chunks.append(_NO_TAGGED_FIELDS)
    api.encode_response(response, version, chunks)
    return _framed(chunks)


def decode_response(api: Api[RequestT, ResponseT], version: int, frame: bytes) -> tuple[int, ResponseT]:
    """Correlation id and response of a frame.  Raises ProtocolError."""
    correlation_id = response_correlation_id(frame)
    cursor = Cursor(frame, _INT32.size)
    if api.response_header_version(version) == 1:
        _skip_tagged_fields(cursor)
    return correlation_id, api.decode_response(cursor, version)


def response_correlation_id(frame: bytes) -> int:
    """The correlation id of a response, whatever follows it.  Raises ProtocolError."""
    if len(frame) < _INT32.size:
        raise ProtocolError(f"response header: {len(frame)} bytes, at least {_INT32.size} were expected")
    return int(_INT32.unpack_from(frame)[0])


def _framed(chunks: Chunks) -> bytes:
    chunks.insert(0, _INT32.pack(sum(map(len, chunks))))
    return b"".join(chunks)
