"""Kafka's protocol: requests, responses, frames, SASL before authentication, and records of TLS."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any

import trio
import trustme

from kraft_trio.config.secret import Secret
from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.security.sasl_mechanisms import PlainServer
from kraft_trio.security.sasl_server import SaslExchange
from kraft_trio.wire.api import API_VERSIONS, APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from kraft_trio.wire.codec import RequestHeader, decode_request, decode_response, encode_request, encode_response
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.tls_stream import TlsStream
from scripts.fuzzing.decoder import Decoder
from scripts.fuzzing.sampling import sampled
from scripts.fuzzing.streams import Given, run
from tests.wire.values import ALL_VERSIONS, VALUES, cut_down

REFUSALS = (ProtocolError, UnsupportedVersionError)
FRAME_LIMIT = 16 * 1024
ALERT = b"\x15\x03\x03\x00\x02\x02\x28"
"""Of a handshake that failed."""
PIECES = (1, 3, 4, 7, 4096, 1)


@cache
def sound(kind: str) -> tuple[tuple[Api[Any, Any], int, bytes], ...]:
    """API, version and bytes of frames with values of all kinds, three for each version, and one of zeros."""
    found: list[tuple[Api[Any, Any], int, bytes]] = []
    random = Random(1)
    for api, versions in groupby((row for row in ALL_VERSIONS if row[2] == kind), key=itemgetter(0)):
        values = sampled(VALUES[api.name, kind], 6)
        for _, version, _ in versions:
            for value in random.sample(values, 3):
                with suppress(UnsupportedVersionError):
                    cut = cut_down(value, api.name, version)
                    if kind == "request":
                        frame = encode_request(api, version, 1, "client", cut)
                    else:
                        frame = encode_response(api, version, 1, cut)
                    found.append((api, version, frame[4:]))
    return tuple(found)


def requests() -> list[bytes]:
    zeros = [
        struct.pack(">hhih", api.key, version, 1, -1) + bytes(60)
        for api in APIS.values()
        for version in range(api.min_version, api.max_version + 1)
    ]
    return [frame for _, _, frame in sound("request")] + zeros


def responses() -> list[bytes]:
    """With key and version of the API in front."""
    return [struct.pack(">hh", api.key, version) + frame for api, version, frame in sound("response")]


def read_response(data: bytes) -> object:
    key, version = struct.unpack_from(">hh", data.ljust(4, b"\0"))
    api = APIS.get(key) or API_VERSIONS
    version = min(max(version, api.min_version), api.max_version)
    return decode_response(api, version, data[4:])


def frames() -> list[bytes]:
    some = [struct.pack(">i", len(data)) + data for data in requests()[::20]]
    return [*some, b"".join(some[:5]), struct.pack(">i", FRAME_LIMIT) + bytes(FRAME_LIMIT)]


async def read_frames(data: bytes) -> None:
    for pieces in ((len(data) or 1,), PIECES):
        reader = FrameReader(Given(data, pieces), FRAME_LIMIT)
        while await reader.read_lent() is not None:
            pass


def sasl_frames() -> list[bytes]:
    """Each frame with its length."""
    hello = encode_request(API_VERSIONS, 3, 1, "x", ApiVersionsRequest())
    handshake = encode_request(SASL_HANDSHAKE, 1, 2, "x", SaslHandshakeRequest("PLAIN"))
    token = encode_request(SASL_AUTHENTICATE, 2, 3, "x", SaslAuthenticateRequest(b"\0user\0pencil"))
    return [hello + handshake + token, handshake + token, hello + hello, token]


class _Versions:
    def api_versions(self, listener_name: str) -> ApiVersionsResponse:
        return ApiVersionsResponse()

    def too_new(self, error: UnsupportedVersionError) -> tuple[RequestHeader, ApiVersionsResponse]:
        return RequestHeader(API_VERSIONS, 0, 1), ApiVersionsResponse()


def authenticate(data: bytes) -> None:
    exchange = SaslExchange("CLIENT", {"PLAIN": partial(PlainServer, {"user": Secret("pencil")})}, _Versions())
    while len(data) >= 4:
        length = struct.unpack_from(">I", data)[0]
        step = exchange.receive(data[4 : 4 + length])
        if step.user or step.failure:
            return
        data = data[4 + length :]


@cache
def tls_contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    ca = trustme.CA()
    certificate = ca.issue_cert("localhost", key_type=trustme.KeyType.ECDSA)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    certificate.configure_cert(server)
    ca.configure_trust(server)
    ca.configure_trust(client)
    server.verify_mode = ssl.CERT_REQUIRED
    return server, client


@cache
def hellos() -> tuple[bytes, bytes]:
    """The first flight of a client, and a server's answer to it."""
    server, client = tls_contexts()
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    for context, source, target, is_server in (
        (client, to_client, to_server, False),
        (server, to_server, to_client, True),
    ):
        try:
            context.wrap_bio(
                source, target, server_side=is_server, server_hostname=None if is_server else "localhost"
            ).do_handshake()
        except ssl.SSLWantReadError:
            pass
        if not is_server:
            hello = to_server.read()
            to_server.write(hello)
    return hello, to_client.read()


async def shake_hands(data: bytes) -> None:
    """As the server, and as the client, of a peer that sends this."""
    server, client = tls_contexts()
    for context, hostname in ((server, None), (client, "localhost")):
        stream = TlsStream(Given(data, (17, 4096)), context, hostname)
        try:
            await stream.start()
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass


def running(function: Any) -> Any:
    def decode(data: bytes) -> object:
        found: Coroutine[Any, Any, object] = function(data)
        return run(found)

    return decode


DECODERS = (
    Decoder("requests", requests, decode_request, REFUSALS),
    Decoder("responses", responses, read_response, REFUSALS, memory_per_byte=2000),
    Decoder("frames", frames, running(read_frames), (ProtocolError, NetworkError)),
    Decoder("sasl-frames", sasl_frames, authenticate, ()),
    Decoder("tls", lambda: [*hellos(), ALERT], partial(trio.run, shake_hands), ()),
)
