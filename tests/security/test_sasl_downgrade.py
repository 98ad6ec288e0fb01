"""A man in the middle who answers in the server's place neither learns the password nor is believed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from kraft_trio.config.sasl_fields import SCRAM_SHA_256, SCRAM_SHA_512, Login
from kraft_trio.config.secret import Secret
from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.sasl_network import SaslNetwork
from kraft_trio.wire.api import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kraft_trio.wire.apis.api_versions import ApiRange, ApiVersionsRequest, ApiVersionsResponse
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kraft_trio.wire.codec import decode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import ImmediateStream, Listener

PASSWORD = "s3cret"
SERVED = tuple(
    ApiRange(api.key, api.min_version, api.max_version) for api in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
)


class Middle(ImmediateStream):
    """Answers each request at once, and keeps what it has learnt."""

    def __init__(self, mechanisms: tuple[str, ...], error: ErrorCode, answer: Callable[[bytes], bytes]) -> None:
        self._mechanisms, self._error, self._answer = mechanisms, error, answer
        self._answers = bytearray()
        self.tokens: list[bytes] = []

    def send_now(self, *parts: bytes | memoryview) -> int:
        frame = b"".join(parts)
        header, request = decode_request(frame[4:])
        match request:
            case ApiVersionsRequest():
                response: object = ApiVersionsResponse(apis=SERVED)
            case SaslHandshakeRequest():
                response = SaslHandshakeResponse(self._error, self._mechanisms)
            case SaslAuthenticateRequest():
                self.tokens.append(request.auth_bytes)
                response = SaslAuthenticateResponse(auth_bytes=self._answer(request.auth_bytes))
            case _:
                raise AssertionError(f"{request} of a client that has not authenticated")
        self._answers += encode_response(header.api, header.version, header.correlation_id, response)
        return len(frame)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.send_now(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        received = bytes(self._answers)
        self._answers.clear()
        return received

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class OneStream:
    """A network that leads to the man in the middle."""

    def __init__(self, stream: Middle) -> None:
        self._stream = stream

    async def connect(self, endpoint: Endpoint) -> ImmediateStream:
        return self._stream

    async def addresses(self, host: str) -> tuple[str, ...]:
        return (host,)

    async def listen(self, endpoint: Endpoint) -> Listener:
        raise NotImplementedError


def first_message(iterations: str) -> Callable[[bytes], bytes]:
    """The server's part of SCRAM, as far as anybody can play it; and then a signature that nobody can know."""

    def answer(token: bytes) -> bytes:
        if token.startswith(b"n,,"):
            nonce = token.partition(b",r=")[2]
            return b"r=" + nonce + b"more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=" + iterations.encode()
        return b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

    return answer


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize(
    ("mechanisms", "error", "answer", "tokens"),
    [
        (("PLAIN",), ErrorCode.unsupported_sasl_mechanism, first_message("4096"), 0),
        (("PLAIN",), ErrorCode.none, first_message("4096"), 2),
        ((), ErrorCode.none, first_message("1"), 1),
        ((), ErrorCode.none, first_message("4095"), 1),
        ((), ErrorCode.none, first_message("100000000"), 1),
        ((), ErrorCode.none, lambda _: b"", 1),
        ((), ErrorCode.none, first_message("4096"), 2),
    ],
    ids=["PLAIN alone", "PLAIN offered", "one iteration", "too few", "too many", "nothing", "a forged signature"],
)
async def test_the_client_gives_up(
    mechanism: str,
    mechanisms: tuple[str, ...],
    error: ErrorCode,
    answer: Callable[[bytes], bytes],
    tokens: int,
) -> None:
    middle = Middle(mechanisms, error, answer)
    network = SaslNetwork(OneStream(middle), Login(mechanism, "node", Secret(PASSWORD)), "test")
    with pytest.raises(NetworkError):
        await network.connect(Endpoint("a", 1))
    assert len(middle.tokens) == tokens
    assert all(PASSWORD.encode() not in token for token in middle.tokens)
