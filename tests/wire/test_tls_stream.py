"""TLS on our own streams: everything arrives in order, and a failure names its cause."""

from __future__ import annotations

import ssl
from collections import deque
from typing import Any

import pytest
import trio
import trio.testing
import trustme
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.wire.network import ImmediateStream
from kraft_trio.wire.tls_stream import TlsStream

CA = trustme.CA()
CERTIFICATE = CA.issue_cert("node.example", key_type=trustme.KeyType.ECDSA)


def server_context(certificate: trustme.LeafCert = CERTIFICATE) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    CA.configure_trust(context)
    return context


def client_context(trusted: trustme.CA = CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusted.configure_trust(context)
    return context


class NarrowStream(ImmediateStream):
    """One end of a pipe that holds few bytes, and takes at each call as many as its list says."""

    def __init__(self, room: int, takes: list[int]) -> None:
        self.room, self.takes = room, deque(takes or [room])
        self.held = bytearray()
        self.changed = trio.Event()
        self.peer: NarrowStream
        self.is_closed = False

    def _note(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    def send_now(self, *parts: bytes | memoryview) -> int:
        if self.peer.is_closed:
            raise trio.BrokenResourceError("closed")
        data = b"".join(parts)
        self.takes.rotate(-1)
        taken = min(self.takes[0], self.room - len(self.held), len(data))
        self.held += data[:taken]
        self._note()
        return taken

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise NotImplementedError

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()
        while len(self.held) >= self.room:
            await self.changed.wait()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        source = self.peer
        while not source.held and not source.is_closed:
            await source.changed.wait()
        data = bytes(source.held[:max_bytes])
        del source.held[: len(data)]
        source._note()
        return data

    async def aclose(self) -> None:
        self.is_closed = True
        self._note()
        await trio.lowlevel.checkpoint()


def pair(
    room: int = 100_000, takes: list[int] | None = None, hostname: str = "node.example", **contexts: ssl.SSLContext
) -> tuple[TlsStream, TlsStream]:
    """A client and a server."""
    near, far = NarrowStream(room, takes or []), NarrowStream(room, takes or [])
    near.peer, far.peer = far, near
    return (
        TlsStream(near, contexts.get("client") or client_context(), hostname),
        TlsStream(far, contexts.get("server") or server_context()),
    )


async def receive_all(stream: TlsStream, max_bytes: int | None = None) -> bytes:
    received = bytearray()
    while piece := await stream.receive_some(max_bytes):
        received += piece
    return bytes(received)


@given(
    st.lists(st.lists(st.binary(max_size=40_000), max_size=4), max_size=4),
    st.sampled_from([1_000, 20_000, 70_000, 200_000]),
    st.lists(st.integers(500, 70_000), max_size=4),
    st.sampled_from([None, 100, 20_000]),
)
def test_everything_arrives_once_and_in_order(
    frames: list[list[bytes]], room: int, takes: list[int], max_bytes: int | None
) -> None:
    received = b""

    async def main() -> None:
        client, server = pair(room, takes)

        async def send() -> None:
            await client.start()
            for frame in frames:
                parts: list[bytes | memoryview] = [*frame]
                while left := sum(map(len, parts)):
                    sent = client.send_now(*parts)
                    assert 0 <= sent <= left
                    rest = b"".join(parts)[sent:]
                    parts = [rest] if rest else []
                    if parts:
                        await client.wait_send_all_might_not_block()
            await client.aclose()

        async def receive() -> None:
            nonlocal received
            received = await receive_all(server, max_bytes)
            await server.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(receive)

    trio.run(main)
    assert received == b"".join(b"".join(frame) for frame in frames)


async def test_a_large_frame_is_received_in_place() -> None:
    client, server = pair(room=50_000)
    data = bytes(range(256)) * 4_000
    buffer = bytearray(len(data))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, data)
        at = 0
        while at < len(data):
            at += await server.receive_into(memoryview(buffer)[at:])
    assert buffer == data


async def test_a_closed_peer_is_the_end() -> None:
    for is_told in (True, False):
        client, server = pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.start)
            nursery.start_soon(server.start)
        await (client if is_told else client._inner).aclose()
        assert await server.receive_some() == b""
        assert await server.receive_some() == b""
        await server.aclose()


async def test_a_server_waits_for_its_turn_before_it_signs() -> None:
    client, server = pair()
    turn = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.start)
        nursery.start_soon(server.start, turn.wait)
        await trio.testing.wait_all_tasks_blocked()
        assert client.peer_certificate() is None
        turn.set()
    assert client.peer_certificate() is not None


async def handshake(client: TlsStream, server: TlsStream) -> list[str]:
    """What the client's and the server's handshake and first receive say."""
    reasons: list[str] = ["", ""]

    async def attempt(index: int, stream: TlsStream) -> None:
        try:
            await stream.start()
            await stream.receive_some()
        except trio.BrokenResourceError as error:
            reasons[index] = str(error)
            await stream.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attempt, 0, client)
        nursery.start_soon(attempt, 1, server)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return reasons


@pytest.mark.parametrize(
    ("given", "client_says", "server_says"),
    [
        ({"hostname": "other.example"}, "Hostname mismatch", "alert bad certificate"),
        ({"client": client_context(trustme.CA())}, "self-signed certificate in certificate chain", "alert unknown ca"),
    ],
)
async def test_a_failed_handshake_names_its_cause(given: dict[str, Any], client_says: str, server_says: str) -> None:
    reasons = await handshake(*pair(**given))
    assert client_says in reasons[0]
    assert server_says in reasons[1]


async def test_a_client_without_certificate_is_refused_if_one_is_required() -> None:
    required = server_context()
    required.verify_mode = ssl.CERT_REQUIRED
    client_says, server_says = await handshake(*pair(server=required))
    assert "certificate required" in client_says
    assert "peer did not return a certificate" in server_says


async def test_plaintext_instead_of_a_handshake_is_refused() -> None:
    client, server = pair()
    client._inner.send_now(b"\x00\x00\x00\x1f\x00\x12\x00\x04\x00\x00\x00\x01")
    with pytest.raises(trio.BrokenResourceError, match="TLS handshake failed: wrong version number"):
        await server.start()


async def test_the_verified_certificate_is_told() -> None:
    client, server = pair()
    assert client.peer_certificate() is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.start)
        nursery.start_soon(server.start)
    leaf = ssl.PEM_cert_to_DER_cert(CERTIFICATE.cert_chain_pems[0].bytes().decode())
    assert client.peer_certificate() == leaf
    assert server.peer_certificate() is None


async def test_each_receive_is_a_checkpoint() -> None:
    client, server = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, b"abc")
        nursery.start_soon(server.start)
    for _ in range(3):
        with trio.testing.assert_checkpoints():
            assert len(await server.receive_some(1)) == 1
