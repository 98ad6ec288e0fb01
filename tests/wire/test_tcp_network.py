"""Listening on every interface, and connecting to a host with several addresses."""

from __future__ import annotations

import errno
import socket
import struct
from typing import Any

import pytest
import trio

from harness.ports import free_ports
from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire import tcp_network
from kraft_trio.wire.name_resolution import NameResolver
from kraft_trio.wire.tcp_network import TcpNetwork


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture
def no_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without it."""
    real = tcp_network._bound

    def without_ipv6(family: socket.AddressFamily, address: str, port: int) -> trio.SocketListener:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, address, port)

    monkeypatch.setattr(tcp_network, "_bound", without_ipv6)


async def test_an_empty_host_listens_on_every_interface() -> None:
    tcp = TcpNetwork()
    listener = await tcp.listen(Endpoint("", 0))
    for host in ["127.0.0.1", *(["::1"] if has_ipv6() else [])]:
        client = await tcp.connect(Endpoint(host, listener.endpoint.port))
        served = await listener.accept()
        await client.send_all(b"hello")
        assert await served.receive_some(5) == b"hello"
        await client.aclose()
        await served.aclose()
    await listener.aclose()


async def test_nobody_is_served_whose_address_is_not_known() -> None:
    """A connection that its peer resets before it is accepted has no address, though its bytes can still be read."""
    tcp = TcpNetwork()
    listener = await tcp.listen(Endpoint("127.0.0.1", 0))
    with socket.create_connection(("127.0.0.1", listener.endpoint.port)) as unknown:
        unknown.sendall(b"from nowhere")
        unknown.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client = await tcp.connect(listener.endpoint)
    served = await listener.accept()
    await client.send_all(b"hello")
    assert (served.peer_host, await served.receive_some(5)) == ("127.0.0.1", b"hello")
    for one in (client, served, listener):
        await one.aclose()


@pytest.mark.usefixtures("no_ipv6")
async def test_without_ipv6_it_listens_on_every_ipv4_interface() -> None:
    listener = await TcpNetwork().listen(Endpoint("", 0))
    assert listener.endpoint.host == "0.0.0.0"
    await listener.aclose()


async def test_a_taken_port_is_refused_for_every_interface() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(OSError, match="in use"):
            await TcpNetwork().listen(Endpoint("", taken.getsockname()[1]))


async def test_the_next_address_is_tried_where_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def two_addresses(*_: Any, **__: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr("kraft_trio.wire.tcp_network.NameResolver", lambda: NameResolver(two_addresses))
    [port] = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        stream = await TcpNetwork().connect(Endpoint("two", port))
        await stream.aclose()
    with trio.fail_after(30), pytest.raises(NetworkError, match="refused"):
        await TcpNetwork().connect(Endpoint("two", port))


async def test_a_connection_without_a_descriptor_to_keep_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a NetworkError, which all callers expect."""

    def refuse(_descriptor: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr("kraft_trio.wire.tcp_stream.os.dup", refuse)
        with pytest.raises(NetworkError, match="Too many open files"):
            await TcpNetwork().connect(Endpoint("127.0.0.1", server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(1) == b"", "the connection was closed"
