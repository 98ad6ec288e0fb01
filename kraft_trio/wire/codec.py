"""Requests and responses with their headers, as whole frames (KIP-482 for the header versions).

Encoded frames begin with four bytes of length.  Decoding expects frames without them, as FrameReader returns them.
"""

from __future__ import annotations

from itertools import groupby
from struct import Struct
from typing import Any, Final, NoReturn, TypeVar

import attrs

from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.wire.api import APIS
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.schema_reader import (
    REQUEST_ELEMENTS,
    RESPONSE_ELEMENTS,
    refuse_size,
    refuse_text,
    skip_tagged_fields,
)
from kraft_trio.wire.schema_writer import Chunks

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

_REQUEST_HEADER: Final = Struct(">hhih")
"""API key, version, correlation id, length of the client id (-1 for null; never compact, even in header version 2)."""

_REQUEST_START: Final = Struct(">hhi")
"""The beginning of the header, which is the same in every version of every API."""

_RESPONSE_HEADERS: Final = (Struct(">ii"), Struct(">iix"))
"""The frame length and the correlation id, by header version.  Version 1 adds tagged fields; we send none."""

_REQUEST_FRAME_START: Final = Struct(">ihhih")
"""The frame length and _REQUEST_HEADER."""

_INT32: Final = Struct(">i")
_LENGTH_BYTES: Final = 4
_NO_TAGGED_FIELDS: Final = b"\0"
PART_BYTES: Final = 32 * 1024
"""A chunk of at least this size is sent by itself; smaller chunks are cheaper to copy into one part."""


@attrs.frozen
class RequestHeader:
    """The API and version of a request, the client's number for it, and the client's name."""

    api: Api[Any, Any]
    version: int
    correlation_id: int
    client_id: str | None = None


class UnsupportedRequestError(UnsupportedVersionError):
    """A request of an API or version that is not served, with the fields that its answer needs."""

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
    """The frame of a request, length included.  Raises UnsupportedVersionError if the version cannot express it."""
    raw_client_id = b"" if client_id is None else client_id.encode()
    client_id_length = -1 if client_id is None else len(raw_client_id)
    chunks = [raw_client_id]
    if version >= api.flexible_version:
        chunks.append(_NO_TAGGED_FIELDS)
    api.encode_request(request, version, chunks)
    body = b"".join(chunks)
    size = _REQUEST_HEADER.size + len(body)
    return _REQUEST_FRAME_START.pack(size, api.key, version, correlation_id, client_id_length) + body


def decode_request(frame: bytes) -> tuple[RequestHeader, Any]:
    """The header and the request in a frame.

    Raises UnsupportedRequestError for an API or version that is not served, and ProtocolError for any other fault.
    """
    size = len(frame)
    if size < _REQUEST_HEADER.size:
        _refuse_short_header(frame)
    api_key, version, correlation_id, client_id_length = _REQUEST_HEADER.unpack_from(frame)
    api = APIS.get(api_key)
    if api is None or not api.min_version <= version <= api.max_version:
        raise UnsupportedRequestError(api_key, version, correlation_id)
    client_id = None
    position = _REQUEST_HEADER.size
    if client_id_length != -1:
        start, position = position, position + client_id_length
        if client_id_length < 0 or position > size:
            refuse_size("request header: client_id", client_id_length, size - start)
        try:
            client_id = frame[start:position].decode()
        except UnicodeDecodeError:
            refuse_text("request header: client_id", frame[start:position])
    elements_left = REQUEST_ELEMENTS
    if version >= api.flexible_version:
        if frame[position : position + 1] == _NO_TAGGED_FIELDS:
            position += 1
        else:
            position, elements_left = skip_tagged_fields(frame, position, elements_left)
    request = api.decode_request(version, frame, position, elements_left)
    return RequestHeader(api, version, correlation_id, client_id), request


def _refuse_short_header(frame: bytes) -> NoReturn:
    """A frame that ends within the header may still name an API or version that is not served."""
    if len(frame) < _REQUEST_START.size:
        raise ProtocolError(f"request header: {len(frame)} bytes, at least {_REQUEST_START.size} were expected")
    api_key, version, correlation_id = _REQUEST_START.unpack_from(frame)
    api = APIS.get(api_key)
    if api is None or not api.supports(version):
        raise UnsupportedRequestError(api_key, version, correlation_id)
    raise ProtocolError("request header: the frame ends before client_id")


def encode_response(api: Api[RequestT, ResponseT], version: int, correlation_id: int, response: ResponseT) -> bytes:
    """The frame of a response, length included."""
    return b"".join(_response_chunks(api, version, correlation_id, response))


def encode_response_parts(
    api: Api[RequestT, ResponseT], version: int, correlation_id: int, response: ResponseT
) -> list[bytes]:
    """The frame of a response, length included, in parts to send one by one.  Large byte strings are not copied."""
    chunks = _response_chunks(api, version, correlation_id, response)
    if max(map(len, chunks)) < PART_BYTES:
        return [b"".join(chunks)]
    parts: list[bytes] = []
    for is_large, neighbours in groupby(chunks, key=lambda chunk: len(chunk) >= PART_BYTES):
        if is_large:
            parts += neighbours
        else:
            parts.append(b"".join(neighbours))
    return parts


def _response_chunks(api: Api[RequestT, ResponseT], version: int, correlation_id: int, response: ResponseT) -> Chunks:
    chunks: Chunks = [b""]
    api.encode_response(response, version, chunks)
    header = _RESPONSE_HEADERS[api.response_header_version(version)]
    chunks[0] = header.pack(header.size - _LENGTH_BYTES + sum(map(len, chunks)), correlation_id)
    return chunks


def decode_response(api: Api[RequestT, ResponseT], version: int, frame: bytes | bytearray) -> tuple[int, ResponseT]:
    """The correlation id and the response in a frame.  Raises ProtocolError."""
    correlation_id = response_correlation_id(frame)
    position, elements_left = _INT32.size, RESPONSE_ELEMENTS
    if api.response_header_version(version) == 1:
        if frame[position : position + 1] == _NO_TAGGED_FIELDS:
            position += 1
        else:
            position, elements_left = skip_tagged_fields(frame, position, elements_left)
    return correlation_id, api.decode_response(version, frame, position, elements_left)


def response_correlation_id(frame: bytes | bytearray) -> int:
    """The correlation id of a response, without decoding the rest.  Raises ProtocolError."""
    if len(frame) < _INT32.size:
        raise ProtocolError(f"response header: {len(frame)} bytes, at least {_INT32.size} were expected")
    return int(_INT32.unpack_from(frame)[0])
