"""What a client may send before it has authenticated, and in which order."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.actors.network.sasl_authentication import authenticate
from kraft_trio.config.secret import Secret
from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.security.sasl_listener import SaslListener
from kraft_trio.security.sasl_mechanisms import PlainServer
from kraft_trio.security.sasl_server import SaslExchange, Step
from kraft_trio.wire.api import API_VERSIONS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE, Api
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft_trio.wire.apis.metadata import MetadataRequest
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kraft_trio.wire.codec import RequestHeader, UnsupportedRequestError, decode_response, encode_request
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.framing import FrameReader


class Versions:
    def api_versions(self, listener_name: str) -> ApiVersionsResponse:
        return ApiVersionsResponse()

    def too_new(self, error: UnsupportedVersionError) -> tuple[RequestHeader, ApiVersionsResponse]:
        assert isinstance(error, UnsupportedRequestError)
        return RequestHeader(API_VERSIONS, 0, error.correlation_id), ApiVersionsResponse(ErrorCode.unsupported_version)


def exchange() -> SaslExchange:
    return SaslExchange("CLIENT", {"PLAIN": lambda: PlainServer({"user": Secret("pencil")})}, Versions())


def frame(api: Api, request: object, version: int | None = None) -> bytes:
    return encode_request(api, api.max_version if version is None else version, 7, "test", request)[4:]


VERSIONS = frame(API_VERSIONS, ApiVersionsRequest())
TOO_NEW = b"\0\x12\x7f\xff" + VERSIONS[4:]
HANDSHAKE = frame(SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN"))
HANDSHAKE_0 = b"\0\x11\0\0" + HANDSHAKE[4:]
TOKEN = frame(SASL_AUTHENTICATE, SaslAuthenticateRequest(b"\0user\0pencil"))
METADATA_FRAME = frame(METADATA, MetadataRequest(topics=None))


def steps(*frames: bytes) -> list[Step]:
    served = exchange()
    return [served.receive(frame) for frame in frames]


@pytest.mark.parametrize(
    "frames", [(HANDSHAKE, TOKEN), (VERSIONS, HANDSHAKE, TOKEN), (TOO_NEW, VERSIONS, HANDSHAKE, TOKEN)]
)
def test_the_orders_that_lead_to_a_user(frames: tuple[bytes, ...]) -> None:
    *before, last = steps(*frames)
    assert all(step.response and step.user is None and step.failure is None for step in before)
    assert (last.user, last.failure) == ("user", None)
    assert decode_response(SASL_AUTHENTICATE, 2, last.response[4:])[1] == SaslAuthenticateResponse()


@pytest.mark.parametrize(
    "frames",
    [
        (METADATA_FRAME,),
        (TOKEN,),
        (VERSIONS, VERSIONS),
        (TOO_NEW, TOO_NEW),
        (VERSIONS, TOKEN),
        (VERSIONS, METADATA_FRAME),
        (HANDSHAKE, HANDSHAKE),
        (HANDSHAKE, VERSIONS),
        (HANDSHAKE, METADATA_FRAME),
        (HANDSHAKE_0,),
        (HANDSHAKE[:-1],),
        (b"",),
        (b"GET / HTTP/1.1\r\n\r\n",),
    ],
)
def test_anything_else_ends_the_connection_unanswered(frames: tuple[bytes, ...]) -> None:
    *before, last = steps(*frames)
    assert all(step.failure is None for step in before)
    assert last.failure is not None
    assert (last.response, last.user) == (b"", None)


def test_a_mechanism_that_is_not_enabled_is_refused() -> None:
    [step] = steps(frame(SASL_HANDSHAKE, SaslHandshakeRequest("SCRAM-SHA-256")))
    refusal = SaslHandshakeResponse(ErrorCode.unsupported_sasl_mechanism, ("PLAIN",))
    assert decode_response(SASL_HANDSHAKE, 1, step.response[4:])[1] == refusal
    assert step.failure is not None


@pytest.mark.parametrize("token", [b"", b"\0user\0pen", b"\0nobody\0pencil", b"x" * 60_000])
def test_every_refused_token_gets_the_same_answer(token: bytes) -> None:
    step = steps(HANDSHAKE, frame(SASL_AUTHENTICATE, SaslAuthenticateRequest(token)))[-1]
    refusal = SaslAuthenticateResponse(ErrorCode.sasl_authentication_failed, "authentication with PLAIN failed")
    assert decode_response(SASL_AUTHENTICATE, 2, step.response[4:])[1] == refusal
    assert step.user is None
    assert step.failure is not None


@given(
    st.lists(st.sampled_from([VERSIONS, TOO_NEW, HANDSHAKE]), max_size=3),
    st.builds(bytes.__add__, st.sampled_from([b"", VERSIONS[:8], HANDSHAKE[:8], HANDSHAKE, TOKEN[:8]]), st.binary()),
)
def test_garbage_never_authenticates(before: list[bytes], garbage: bytes) -> None:
    assert all(step.user is None for step in steps(*before, garbage))


def test_a_token_is_not_shown() -> None:
    assert "pencil" not in repr(SaslAuthenticateRequest(b"\0user\0pencil"))
    assert "pencil" not in repr(SaslAuthenticateResponse(auth_bytes=b"pencil"))


async def test_each_step_of_a_login_takes_a_turn() -> None:
    """Preparing a name and checking a proof takes time, and hundreds of clients may want it at once."""
    ours, theirs = trio.testing.memory_stream_pair()
    listener = SaslListener("CLIENT", {"PLAIN": lambda: PlainServer({"user": Secret("pencil")})}, 5.0, 0.1)
    turns = 0

    async def take_turn() -> None:
        nonlocal turns
        turns += 1

    for each in (VERSIONS, HANDSHAKE, TOKEN):
        await ours.send_all(len(each).to_bytes(4, "big") + each)
    session = await authenticate(cast(Any, theirs), FrameReader(theirs, 2**16), listener, Versions(), take_turn)
    assert (session.user, turns) == ("user", 3)
