"""Connections over TLS: which servers a client refuses, and certificates that change while a node runs."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import structlog.testing
import trio
import trustme
from cryptography import x509

from kraft_trio import NodeConfig
from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.client_network import client_network
from kraft_trio.security.credentials import NodeCredentials
from kraft_trio.security.tls_network import TlsNetwork
from kraft_trio.wire.network import ImmediateStream, Listener, Network
from kraft_trio.wire.tcp_network import TcpNetwork
from tests.support.certificates import authority, foreign_authority, issue, tls_keys, write_client_file, write_store

ANY_PORT = Endpoint("127.0.0.1", 0)


def server_with(certificate: trustme.LeafCert) -> Network:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return TlsNetwork(TcpNetwork(), None, {ANY_PORT: lambda: context})


@asynccontextmanager
async def served(listener: Listener, accepted: list[ImmediateStream]) -> AsyncIterator[Endpoint]:
    """Accept connections and do their handshakes.  Yields the address by its name."""

    async def accept() -> None:
        while True:
            accepted.append(await listener.accept())
            nursery.start_soon(start, accepted[-1])

    async def start(stream: ImmediateStream) -> None:
        try:
            await stream.start()
        except trio.BrokenResourceError:
            await stream.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        yield Endpoint("localhost", listener.endpoint.port)
        nursery.cancel_scope.cancel()
    for stream in accepted:
        await trio.aclose_forcefully(stream)
    await listener.aclose()


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (issue(authority(), "expired", is_expired=True), "certificate has expired"),
        (issue(authority(), "other", "other.example"), "Hostname mismatch, certificate is not valid for 'localhost'"),
        (issue(foreign_authority(), "foreign"), "unable to get local issuer certificate"),
    ],
)
async def test_a_client_refuses_a_server(certificate: trustme.LeafCert, reason: str, tmp_path: Path) -> None:
    network = client_network(write_client_file(tmp_path / "client", tls_keys(tmp_path, "client")))
    async with served(await server_with(certificate).listen(ANY_PORT), []) as endpoint:
        with pytest.raises(NetworkError, match=f"TLS handshake failed: certificate verify failed: {reason}"):
            await network.connect(endpoint)


async def test_a_host_that_no_certificate_can_name(tmp_path: Path) -> None:
    """Not even the resolver minds it."""

    class Elsewhere(TcpNetwork):
        async def connect(self, endpoint: Endpoint) -> ImmediateStream:
            return await super().connect(Endpoint("localhost", endpoint.port))

    secured = client_network(write_client_file(tmp_path / "client", tls_keys(tmp_path, "client")))
    assert isinstance(secured, TlsNetwork)
    async with served(await server_with(issue(authority(), "node")).listen(ANY_PORT), []) as endpoint:
        with pytest.raises(NetworkError, match=r"cannot connect: '\.node'"):
            await attrs.evolve(secured, inner=Elsewhere()).connect(Endpoint(".node", endpoint.port))


async def test_without_identification_no_host_is_refused(tmp_path: Path) -> None:
    keys = {**tls_keys(tmp_path, "client"), "ssl.endpoint.identification.algorithm": ""}
    network = client_network(write_client_file(tmp_path / "client", keys))
    listener = await server_with(issue(authority(), "other", "other.example")).listen(ANY_PORT)
    async with served(listener, []) as endpoint:
        await (await network.connect(endpoint)).aclose()


async def test_a_resolved_address_shows_the_certificate_of_its_name(tmp_path: Path) -> None:
    network = client_network(write_client_file(tmp_path / "client", tls_keys(tmp_path, "client")))
    async with served(await server_with(issue(authority(), "node")).listen(ANY_PORT), []) as endpoint:
        with pytest.raises(NetworkError, match="IP address mismatch"):
            await network.connect(Endpoint("127.0.0.1", endpoint.port))
        assert "127.0.0.1" in await network.addresses("localhost")
        await (await network.connect(Endpoint("127.0.0.1", endpoint.port))).aclose()


def node_with_tls(directory: Path) -> NodeConfig:
    return NodeConfig.from_mapping(
        {
            "node.id": 1,
            "listeners": "CONTROLLER://localhost:9093",
            "listener.security.protocol.map": "CONTROLLER:SSL",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "metadata.log.dir": str(directory / "node"),
            **tls_keys(directory, "node"),
        }
    )


def common_name(stream: ImmediateStream) -> str:
    certificate = stream.peer_certificate()
    assert certificate is not None
    (name,) = x509.load_der_x509_certificate(certificate).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(name.value)


async def test_changed_certificates_are_taken_over_without_closing_connections(tmp_path: Path) -> None:
    config = node_with_tls(tmp_path)
    _, credentials = NodeCredentials.of(TcpNetwork(), config)
    of_listener, of_client = credentials.all
    server = TlsNetwork(TcpNetwork(), None, {ANY_PORT: of_listener.current})
    client = TlsNetwork(TcpNetwork(), of_client.current, {})
    accepted: list[ImmediateStream] = []
    async with served(await server.listen(ANY_PORT), accepted) as endpoint:
        first = await client.connect(endpoint)
        with structlog.testing.capture_logs() as lines:
            for content in (issue(authority(), "renewed"), None):
                if content is None:
                    (tmp_path / "node.pem").write_text("half a fi")
                else:
                    write_store(tmp_path / "node.pem", content)
                for one in credentials.all:
                    one.files.look()
                    one.files.look()
        second = await client.connect(endpoint)
        assert [common_name(stream) for stream in (first, second)] == ["node", "renewed"]
        for stream, served_stream in zip((first, second), accepted, strict=True):
            await stream.send_all(b"x")
            assert await served_stream.receive_some(1) == b"x"
            assert common_name(served_stream) == common_name(stream)
            await stream.aclose()
    assert [line["event"] for line in lines] == 2 * ["certificates reloaded"] + 2 * ["changed certificates not used"]
    assert str(tmp_path / "node.pem") in lines[-1]["reason"]
