"""Nodes with `ssl.client.auth=required`: they serve each other and those that they trust, and nobody else."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
import structlog.testing
import trio

from harness.command import kraft
from harness.ports import free_ports
from harness.quorum import STEADY
from kraft_trio import NodeConfig, VoterSet, first_voter, format_node, open_node, random_uuid
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import NoLeader, QuorumDescription
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.client_network import client_network
from kraft_trio.wire.tcp_network import TcpNetwork
from kraft_trio.wire.tls_stream import TlsStream
from tests.support.certificates import authority, client_of, foreign_authority, issue, tls_keys, write_client_file

pytestmark = pytest.mark.rotating(2)


def configs(directory: Path, ids: range, more: Mapping[str, str] | None = None) -> list[NodeConfig]:
    """Formatted voters that reach each other by the name in their certificates."""
    ports = dict(zip(ids, free_ports(len(ids)), strict=True))
    made = [
        NodeConfig.from_mapping(
            {
                "node.id": node_id,
                "listeners": f"CONTROLLER://127.0.0.1:{port}",
                "advertised.listeners": f"CONTROLLER://localhost:{port}",
                "listener.security.protocol.map": "CONTROLLER:SSL",
                "controller.quorum.bootstrap.servers": ",".join(f"localhost:{port}" for port in ports.values()),
                "metadata.log.dir": str(directory / f"node-{node_id}"),
                **STEADY,
                **tls_keys(directory, f"node-{node_id}"),
                **(more or {}),
            }
        )
        for node_id, port in ports.items()
    ]
    cluster_id, voters = random_uuid(), VoterSet([first_voter(config) for config in made])
    for config in made:
        format_node(config, cluster_id, voters)
    return made


@asynccontextmanager
async def nodes_of(made: list[NodeConfig]) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_node(config)) for config in made]


def bootstrap(config: NodeConfig) -> str:
    return str(config.advertised_listeners[0].endpoint)


async def test_three_nodes_commit_and_tools_reach_them(tmp_path: Path) -> None:
    made = configs(tmp_path, range(1, 4))
    operator = write_client_file(tmp_path / "operator.properties", tls_keys(tmp_path, "operator"))
    async with nodes_of(made) as nodes:
        for node in nodes:
            assert await node.append([b"x"])
        admin = AdminClient(bootstrap(made[0]), request_timeout_ms=30_000, network=client_network(operator))
        described = await admin.describe_metadata_quorum()
        assert isinstance(described, QuorumDescription)
        assert [voter.key.id for voter in described.voters] == [1, 2, 3]
        command = ("metadata-quorum", "--bootstrap-controller", bootstrap(made[1]), "--command-config", operator)
        told = await trio.to_thread.run_sync(lambda: kraft(*command, "describe", "--status"))
        assert re.search(rf"^LeaderId: +{described.leader_id}$", told.stdout, re.MULTILINE), told.stderr
        write = ("records", "append", "--bootstrap-server", bootstrap(made[0]), "--command-config", operator, "by hand")
        appended = await trio.to_thread.run_sync(lambda: kraft(*write))
        read = ("records", "read", *write[2:-1], "--from", appended.stdout.strip())
        shown = await trio.to_thread.run_sync(lambda: kraft(*read))
        assert shown.stdout.split() == [appended.stdout.strip(), "by", "hand"], appended.stderr + shown.stderr
        stranger = await AdminClient(bootstrap(made[0])).describe_metadata_quorum(1)
        assert isinstance(stranger, NoLeader)
        assert stranger.reachable == 0


def old_client() -> ssl.SSLContext:
    context = client_of(issue(authority(), "old"))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


async def handshake(endpoint: Endpoint, context: ssl.SSLContext) -> None:
    """Connect, and wait until the peer has closed."""
    stream = TlsStream(await TcpNetwork().connect(endpoint), context, "localhost")
    try:
        await stream.start()
        await stream.receive_some()
    finally:
        await trio.aclose_forcefully(stream)


async def garbage(endpoint: Endpoint, data: bytes) -> None:
    stream = await TcpNetwork().connect(endpoint)
    await stream.send_all(data)
    with suppress(trio.BrokenResourceError):
        while await stream.receive_some():
            pass
    await stream.aclose()


async def test_strangers_are_refused_and_logged_and_harm_nothing(tmp_path: Path) -> None:
    (config,) = configs(tmp_path, range(1, 2))
    endpoint = config.listeners[0].endpoint
    contexts = {
        "peer did not return a certificate": client_of(None),
        "certificate has expired": client_of(issue(authority(), "late", is_expired=True)),
        "unable to get local issuer certificate": client_of(issue(foreign_authority(), "foreign")),
        "unsupported protocol": old_client(),
    }
    bytes_sent = {
        "wrong version number": bytes.fromhex("0000001f0012000400000001"),
        "http request": b"GET / HTTP/1.1\r\n\r\n",
        "the peer closed": b"",
    }
    with structlog.testing.capture_logs() as lines:
        async with nodes_of([config]) as (node,):
            await node.append([b"before"])
            for context in contexts.values():
                with pytest.raises(trio.BrokenResourceError):
                    await handshake(endpoint, context)
            for data in bytes_sent.values():
                if data:
                    await garbage(endpoint, data)
                else:
                    await trio.aclose_forcefully(await TcpNetwork().connect(endpoint))
            assert await node.append([b"after"])
            while len(refused(lines)) < len(contexts) + len(bytes_sent):
                await trio.lowlevel.checkpoint()
            assert node.metrics.values()["number-of-failed-tls-handshakes"] == len(refused(lines))
    for reason, line in zip((*contexts, *bytes_sent), refused(lines), strict=True):
        assert reason in line["reason"]
        assert (line["listener"], line["peer"]) == ("CONTROLLER", "127.0.0.1")


async def test_a_handshake_that_stops_half_way_ends_in_time(tmp_path: Path) -> None:
    """However much of its first message the stranger has sent, and though it continues byte by byte."""
    (config,) = configs(tmp_path, range(1, 2), {"kraft.first.request.timeout.ms": "100"})
    hello = client_hello()
    async with nodes_of([config]) as (node,):
        await node.append([b"before"])
        async with trio.open_nursery() as nursery:
            for sent in (hello[:3], hello[:-1], hello):
                nursery.start_soon(garbage, config.listeners[0].endpoint, sent)
            nursery.start_soon(trickle, config.listeners[0].endpoint, hello)
        assert node.metrics.values()["number-of-cut-connections"] == 4
        assert await node.append([b"after"])


def client_hello() -> bytes:
    sent = ssl.MemoryBIO()
    tls = client_of(None).wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return sent.read()


async def trickle(endpoint: Endpoint, data: bytes) -> None:
    """Send it byte by byte until the peer has closed."""
    stream = await TcpNetwork().connect(endpoint)
    with suppress(trio.BrokenResourceError):
        for byte in data:
            await stream.send_all(bytes([byte]))
            await trio.sleep(0.05)
    await stream.aclose()


def refused(lines: list[dict[str, str]]) -> list[dict[str, str]]:
    return [line for line in lines if (line["event"], line["log_level"]) == ("connection closed", "warning")]
