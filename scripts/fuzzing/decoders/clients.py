"""What clients send in texts: HTTP requests, and tokens of SASL to both sides."""

from __future__ import annotations

from base64 import b64decode
from functools import partial

from kraft_trio.config.sasl_fields import PLAIN, SCRAM_SHA_256, Login
from kraft_trio.config.secret import Secret
from kraft_trio.http.parser import BadRequest, Head, RequestParser
from kraft_trio.security.sasl_mechanisms import AuthenticationError, PlainServer, ScramClient, ScramServer
from kraft_trio.security.scram_credential import ScramCredential
from scripts.fuzzing.decoder import Decoder

HEAD_BYTES = 8 * 1024
REQUESTS = [
    b"GET /readyz?verbose HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nAuthorization: Basic dTpw\r\n\r\n",
    b"POST /v3/kv/put HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc" * 2,
    b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nT: b\r\n\r\n",
    b"GET http://b:1/version HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
]
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_TOKENS = (
    f"n,,n=user,r={NONCE}",
    f"c=biws,r={NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
)
SERVER_TOKENS = (
    f"r={NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
"""The example of RFC 7677, section 3."""


def read_requests(data: bytes) -> None:
    """In one piece, and in small ones, which must make no difference but to the limit of a head."""
    outcomes = [_requests(data, size) for size in (len(data) or 1, 7)]
    kinds = [outcome and outcome.status for outcome in outcomes]
    assert 431 in kinds or kinds[0] == kinds[1], f"in one piece {outcomes[0]!r}, in small ones {outcomes[1]!r}"
    if outcomes[0] is not None:
        raise outcomes[0]


def _requests(data: bytes, size: int) -> BadRequest | None:
    parser = RequestParser(HEAD_BYTES)
    try:
        for at in range(0, len(data), size):
            parser.feed(data[at : at + size])
            while (event := parser.next_event()) is not None:
                if isinstance(event, Head):
                    assert event.content_length >= 0
    except BadRequest as refusal:
        return refusal
    return None


def _credential(mechanism: str, _user: str) -> ScramCredential:
    return KNOWN


KNOWN = ScramCredential("user", SCRAM_SHA_256, bytes(16), bytes(32), bytes(32))


def to_scram_server(data: bytes) -> None:
    server = ScramServer(SCRAM_SHA_256, _credential, SERVER_NONCE)
    for token in data.split(b"\n"):
        server.evaluate(token)


def to_scram_client(data: bytes) -> None:
    client = ScramClient(Login(SCRAM_SHA_256, "user", Secret("pencil")), NONCE)
    client.evaluate(b"")
    for token in data.split(b"\n"):
        client.evaluate(token)
        assert not client.is_complete or _is_signed(token), "a forged final message is believed"


def _is_signed(server_final: bytes) -> bool:
    """Base64 has more than one text for these bytes: the last character has bits that stand for nothing."""
    signature = server_final.removeprefix(b"v=").partition(b",")[0]
    return b64decode(signature) == b64decode(SERVER_TOKENS[1].removeprefix("v="))


def to_plain_server(data: bytes) -> None:
    server = PlainServer({"user": Secret("pencil")})
    server.evaluate(data)
    assert data in (b"\0user\0pencil", b"user\0user\0pencil"), f"{PLAIN} takes {data!r}"


def lines(tokens: tuple[str, ...]) -> list[bytes]:
    return [*(token.encode() for token in tokens), "\n".join(tokens).encode()]


REFUSED = (AuthenticationError,)
DECODERS = (
    Decoder("http", lambda: REQUESTS, read_requests, (BadRequest,)),
    Decoder("scram-server", partial(lines, CLIENT_TOKENS), to_scram_server, REFUSED),
    Decoder("scram-client", partial(lines, SERVER_TOKENS), to_scram_client, REFUSED),
    Decoder("plain-server", lambda: [b"\0user\0pencil", b"user\0user\0pencil"], to_plain_server, REFUSED),
)
