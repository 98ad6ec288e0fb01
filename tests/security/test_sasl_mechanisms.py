"""PLAIN and SCRAM as tokens: the RFC's example, and what neither side accepts."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.config.sasl_fields import PLAIN, SCRAM_MECHANISMS, SCRAM_SHA_256, Login
from kraft_trio.config.secret import Secret
from kraft_trio.security.sasl_mechanisms import (
    AuthenticationError,
    PlainServer,
    ScramClient,
    ScramServer,
    ServerMechanism,
    client_mechanism,
)
from kraft_trio.security.scram_credential import ScramCredential

RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_TOKENS = (
    "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    f"r=rOprNGfwEbeRWgbNEkqO{RFC_SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    f"c=biws,r=rOprNGfwEbeRWgbNEkqO{RFC_SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
"""The example of RFC 7677, section 3."""


def known(mechanism: str, name: str) -> ScramCredential:
    """Knows one user, and gives no other away."""
    password = Secret("pencil") if name == "user" else Secret("which nobody knows")
    return ScramCredential.of_password("user", mechanism, password, salt=RFC_SALT)


def server_of(mechanism: str) -> ServerMechanism:
    if mechanism == PLAIN:
        return PlainServer({"user": Secret("pencil")})
    return ScramServer(mechanism, known)


@pytest.mark.parametrize("mechanism", [PLAIN, *SCRAM_MECHANISMS])
def test_a_user_authenticates(mechanism: str) -> None:
    server = server_of(mechanism)
    client = client_mechanism(Login(mechanism, "user", Secret("pencil")))
    heard = server.evaluate(client.evaluate(b""))
    if mechanism != PLAIN:
        assert server.user is None
        heard = server.evaluate(client.evaluate(heard))
        assert not client.is_complete
        client.evaluate(heard)
    assert client.is_complete
    assert server.user == "user"


def test_the_tokens_are_those_of_the_rfc() -> None:
    server = ScramServer(SCRAM_SHA_256, known, RFC_SERVER_NONCE)
    client = ScramClient(Login(SCRAM_SHA_256, "user", Secret("pencil")), "rOprNGfwEbeRWgbNEkqO")
    tokens = [client.evaluate(b"")]
    for side in (server, client, server):
        tokens.append(side.evaluate(tokens[-1]))
    assert tuple(token.decode() for token in tokens) == RFC_TOKENS


@pytest.mark.parametrize("mechanism", [PLAIN, *SCRAM_MECHANISMS])
def test_unknown_user_and_wrong_password_look_alike(mechanism: str) -> None:
    reasons, said = set(), set()
    for login in (Login(mechanism, "user", Secret("pen")), Login(mechanism, "nobody", Secret("pencil"))):
        client, server = client_mechanism(login), server_of(mechanism)
        token = client.evaluate(b"")
        if mechanism != PLAIN:
            first = server.evaluate(token)
            said.add(first.partition(b",")[2])
            token = client.evaluate(first)
        with pytest.raises(AuthenticationError) as refusal:
            server.evaluate(token)
        assert server.user is None
        reasons.add(str(refusal.value))
    assert reasons == {"unknown user or wrong password"}
    assert len(said) <= 1


@pytest.mark.parametrize(
    "name", ["\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 300, "a" * 2000], ids=["grows", "long"]
)
def test_a_name_that_takes_long_to_prepare_is_not_prepared(name: str) -> None:
    """One byte of such a name costs a server of SCRAM up to 10 microseconds, and it may have 64 KiB."""
    asked = []
    server = ScramServer(SCRAM_SHA_256, lambda mechanism, name: asked.append(name) or known(mechanism, name))
    with pytest.raises(AuthenticationError):
        server.evaluate(f"n,,n={name},r=mine".encode())
    assert not asked


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
@pytest.mark.parametrize("password", ["pencil", "pen"])
def test_a_client_may_repeat_its_nonce_as_librdkafka_did(mechanism: str, password: str) -> None:
    """Its proof is of the message as it was sent."""
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    server = server_of(mechanism)
    first = server.evaluate(b"n,,n=user,r=mine").decode()
    both = first.partition(",")[0].removeprefix("r=")
    unproven = f"c=biws,r=mine{both}"
    signed = f"n=user,r=mine,{first},{unproven}".encode()
    salted = hashlib.pbkdf2_hmac(name, password.encode(), RFC_SALT, 4096)
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), signed, name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    final = f"{unproven},p={proof}".encode()
    if password == "pencil":
        signature = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
        assert server.evaluate(final) == b"v=" + base64.b64encode(signature)
        assert server.user == "user"
    else:
        with pytest.raises(AuthenticationError, match="unknown user or wrong password"):
            server.evaluate(final)
        assert server.user is None


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"user",
        b"\0user",
        b"\0user\0",
        b"\0\0",
        b"\0nobody\0",
        b"\0user\0pencil\0",
        b"other\0user\0pencil",
        b"\xff\0\0",
    ],
)
def test_plain_takes_only_name_and_password(token: bytes) -> None:
    server = server_of(PLAIN)
    with pytest.raises(AuthenticationError):
        server.evaluate(token)
    assert server.user is None


def to_server(step: int, old: str, new: str) -> None:
    """Let a client of the RFC's example send something else in one step."""
    server = ScramServer(SCRAM_SHA_256, known, RFC_SERVER_NONCE)
    tokens = [RFC_TOKENS[0], RFC_TOKENS[2]]
    assert old in tokens[step]
    tokens[step] = tokens[step].replace(old, new)
    try:
        for token in tokens:
            server.evaluate(token.encode())
    finally:
        assert server.user is None


@pytest.mark.parametrize(
    ("step", "old", "new"),
    [
        (1, "NEkqO", "NEkqP"),
        (1, RFC_SERVER_NONCE, ""),
        (1, "r=rOpr", "r=rOprNGfwEbeRWgbNEkqOrOpr"),
        (1, "r=rOpr", "r=otherrOpr"),
        (1, "c=biws", "c=eSws"),
        (1, ",p=dHz", ",p=dHy"),
        (1, ",p=dHzb", ",p="),
        (0, "n,,", "p=tls-unique,,"),
        (0, "n,,", "n,a=admin,"),
        (0, "n,,", "n,,m=x,"),
        (0, "n=user", "n="),
    ],
)
def test_an_altered_token_of_the_client_is_refused(step: int, old: str, new: str) -> None:
    with pytest.raises(AuthenticationError):
        to_server(step, old, new)


@pytest.mark.parametrize(
    ("step", "old", "new"),
    [
        (1, "NEkqO", "NEkqP"),
        (1, RFC_SERVER_NONCE, ""),
        (1, "i=4096", "i=4095"),
        (1, "i=4096", "i=16385"),
        (1, "i=4096", "i=4294967296"),
        (1, "i=4096", "x=y,i=1"),
        (1, "i=4096", "i=4096,i=1"),
        (1, "i=4096", "i=+1"),
        (1, "s=W22ZaJ0SNY7soEsUEjb6gQ==", "s=W22Z"),
        (3, "v=6rri", "v=6rrj"),
        (3, RFC_TOKENS[3], "e=other-error"),
        (3, RFC_TOKENS[3], ""),
    ],
)
def test_an_altered_token_of_the_server_is_refused(step: int, old: str, new: str) -> None:
    client = ScramClient(Login(SCRAM_SHA_256, "user", Secret("pencil")), "rOprNGfwEbeRWgbNEkqO")
    tokens = ["", RFC_TOKENS[1], RFC_TOKENS[3]]
    assert old in tokens[(step + 1) // 2]
    tokens[(step + 1) // 2] = tokens[(step + 1) // 2].replace(old, new)
    for token in tokens[: (step + 1) // 2]:
        client.evaluate(token.encode())
    with pytest.raises(AuthenticationError):
        client.evaluate(tokens[(step + 1) // 2].encode())
    assert not client.is_complete


TOKENS = st.binary() | st.text().map(str.encode) | st.sampled_from(RFC_TOKENS).map(str.encode)


@given(mechanism=st.sampled_from([PLAIN, *SCRAM_MECHANISMS]), tokens=st.lists(TOKENS, max_size=4))
def test_any_tokens_are_answered_or_refused(mechanism: str, tokens: list[bytes]) -> None:
    with contextlib.suppress(AuthenticationError):
        server = server_of(mechanism)
        for token in tokens:
            server.evaluate(token)
    assert server.user is None or mechanism == PLAIN
    with contextlib.suppress(AuthenticationError):
        client = client_mechanism(Login(mechanism, "user", Secret("pencil")))
        for token in (b"", *tokens):
            client.evaluate(token)
