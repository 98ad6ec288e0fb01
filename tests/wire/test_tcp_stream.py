"""The TCP stream of our own: everything arrives, and a peer that vanished is given up."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from kraft_trio.wire.tcp_stream import TcpStream


def pair() -> tuple[TcpStream, TcpStream]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    return TcpStream(near), TcpStream(far)


async def test_more_than_the_kernel_takes_at_once_arrives_whole() -> None:
    near, far = pair()
    data = bytes(range(256)) * 40_000
    received = bytearray()
    async with near, far, trio.open_nursery() as nursery:
        nursery.start_soon(near.send_all, data)
        while len(received) < len(data):
            received += await far.receive_some()
    assert received == data


async def test_a_socket_that_takes_no_options_is_used_all_the_same() -> None:
    """As macOS refuses them once the peer has gone.  Here, the sockets are not TCP's."""
    near, far = map(TcpStream, socket.socketpair())
    async with near, far:
        await near.send_all(b"hello")
        assert await far.receive_some() == b"hello"


async def test_the_end_and_a_closed_stream_are_told() -> None:
    near, far = pair()
    await near.aclose()
    assert await far.receive_some() == b""
    with pytest.raises(trio.ClosedResourceError):
        await near.send_all(b"x")
    with pytest.raises(trio.ClosedResourceError):
        await near.receive_some()
    await far.aclose()


async def test_closing_wakes_readers() -> None:
    near, far = pair()
    async with far, trio.open_nursery() as nursery:

        async def read() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await near.receive_some()

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        await near.aclose()


@pytest.mark.linux
async def test_the_kernel_asks_after_idle_peers() -> None:
    near, far = pair()
    async with near, far:
        for stream in (near, far):
            assert stream._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert stream._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            assert stream._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 10
            assert stream._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
