"""Listeners with SASL, in the simulator: nodes, clients and attackers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.config.jaas import PLAIN_MODULE, SCRAM_MODULE
from kraft_trio.config.sasl_fields import MECHANISMS, PLAIN, SCRAM_SHA_256, Login
from kraft_trio.config.secret import Secret
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.errors import NetworkError
from kraft_trio.security.sasl_network import SaslNetwork
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_file import add_to_scram_file
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.wire.api import DESCRIBE_QUORUM, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.metadata import MetadataRequest
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from kraft_trio.wire.codec import encode_request
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import run_on_cluster

FIRST_REQUEST_S = 2
PASSWORD = Secret("s3cret")


def settings_of(mechanism: str, directory: Path, password: str = PASSWORD.value) -> dict[str, str]:
    """Each node logs in as `node`, with that password."""
    users = f'user_node="{PASSWORD.value}"' if mechanism == PLAIN else ""
    module = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
    path = directory / "users"
    if mechanism != PLAIN:
        add_to_scram_file(str(path), [ScramCredential.of_password("node", mechanism, PASSWORD)])
    return {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        "sasl.jaas.config": f'{module} required username="node" password="{password}" {users};',
        "kraft.scram.credentials.file": str(path),
        "kraft.first.request.timeout.ms": str(FIRST_REQUEST_S * 1000),
    }


def on_sasl_cluster(
    test: Callable[[Cluster], Awaitable[None]], directory: Path, mechanism: str = SCRAM_SHA_256, *, voters: int = 1
) -> None:
    run_on_cluster(test, Setup(voters=voters, settings=settings_of(mechanism, directory)))


async def log_in(cluster: Cluster, login: Login) -> Connection:
    network = SaslNetwork(cluster.network.seen_from("client"), login, "test")
    return await Connection.negotiated(await network.connect(cluster.endpoint_of(1)), "test", 2**20)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_three_nodes_commit(mechanism: str, tmp_path: Path) -> None:
    async def commit(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"value"])
        await cluster.wait_until_alike(1, 2, 3)

    on_sasl_cluster(commit, tmp_path, mechanism, voters=3)


def test_nodes_with_a_wrong_password_elect_nobody(tmp_path: Path) -> None:
    async def wait(cluster: Cluster) -> None:
        await trio.sleep(4)
        assert cluster.leader() is None

    run_on_cluster(wait, Setup(settings=settings_of(SCRAM_SHA_256, tmp_path, "another")))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_unknown_user_and_wrong_password_get_one_answer(mechanism: str, tmp_path: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        said = set()
        for user, password in (("nobody", PASSWORD), ("node", Secret("another"))):
            began = trio.current_time()
            with pytest.raises(NetworkError) as refusal:
                await log_in(cluster, Login(mechanism, user, password))
            said.add((str(refusal.value), trio.current_time() - began >= 0.1))
        [(text, is_late)] = said
        assert is_late
        assert "sasl_authentication_failed" in text
        assert PASSWORD.value not in text

    on_sasl_cluster(ask, tmp_path, mechanism)


@pytest.mark.parametrize("mechanism", [PLAIN, "SCRAM-SHA-512"])
def test_a_client_uses_no_mechanism_but_its_own(mechanism: str, tmp_path: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        with pytest.raises(NetworkError, match="unsupported_sasl_mechanism; the server has 'SCRAM-SHA-256'"):
            await log_in(cluster, Login(mechanism, "node", PASSWORD))

    on_sasl_cluster(ask, tmp_path)


def test_an_authenticated_connection_may_be_idle(tmp_path: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        network = SaslNetwork(cluster.network.seen_from("client"), Login(SCRAM_SHA_256, "node", PASSWORD), "test")
        stream = await network.connect(cluster.endpoint_of(1))
        await trio.sleep(10 * FIRST_REQUEST_S)
        connection = await Connection.negotiated(stream, "test", 2**20)
        response = await connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest("__cluster_metadata"))
        assert response.error == ErrorCode.none
        await connection.aclose()

    on_sasl_cluster(ask, tmp_path)


def test_a_second_authentication_is_refused(tmp_path: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        connection = await log_in(cluster, Login(SCRAM_SHA_256, "node", PASSWORD))
        handshake = await connection.request(SASL_HANDSHAKE, SaslHandshakeRequest(SCRAM_SHA_256))
        assert handshake.error == ErrorCode.illegal_sasl_state
        answer = await connection.request(SASL_AUTHENTICATE, SaslAuthenticateRequest(b""))
        assert answer.error == ErrorCode.illegal_sasl_state
        await connection.aclose()

    on_sasl_cluster(ask, tmp_path)


def test_a_user_may_do_what_the_authorizer_says(tmp_path: Path) -> None:
    settings = {
        **settings_of(SCRAM_SHA_256, tmp_path),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node",
    }
    add_to_scram_file(str(tmp_path / "users"), [ScramCredential.of_password("alice", SCRAM_SHA_256, PASSWORD)])

    async def ask(cluster: Cluster) -> None:
        await (await cluster.wait_for_leader()).append([b"value"])
        for user, error in (("node", ErrorCode.none), ("alice", ErrorCode.cluster_authorization_failed)):
            connection = await log_in(cluster, Login(SCRAM_SHA_256, user, PASSWORD))
            described = await connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest("__cluster_metadata"))
            assert described.error == error
            handshake = await connection.request(SASL_HANDSHAKE, SaslHandshakeRequest(SCRAM_SHA_256))
            assert handshake.error == ErrorCode.illegal_sasl_state
            await connection.aclose()

    run_on_cluster(ask, Setup(settings=settings))


HANDSHAKE = encode_request(SASL_HANDSHAKE, 1, 1, "test", SaslHandshakeRequest(SCRAM_SHA_256))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0",
        b"\0\0\0\x20",
        HANDSHAKE,
        HANDSHAKE[:-3],
        encode_request(METADATA, 12, 1, "test", MetadataRequest(topics=None)),
        encode_request(SASL_AUTHENTICATE, 2, 1, "test", SaslAuthenticateRequest(b"n,,n=node,r=abc")),
        b"\0\1\0\1" + bytes(10),
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),
    ],
)
def test_a_stranger_is_cut_off_in_time(sent: bytes, tmp_path: Path) -> None:
    async def send(cluster: Cluster) -> None:
        stream = await cluster.network.seen_from("client").connect(cluster.endpoint_of(1))
        await stream.send_all(sent)
        with trio.fail_after(FIRST_REQUEST_S + 2):
            while await stream.receive_some():
                pass
        await stream.aclose()

    on_sasl_cluster(send, tmp_path)


def test_a_slow_stranger_is_cut_off_in_time(tmp_path: Path) -> None:
    async def trickle(stream: trio.abc.SendStream) -> None:
        for byte in HANDSHAKE * 1000:
            await stream.send_all(bytes([byte]))
            await trio.sleep(0.2)

    async def send(cluster: Cluster) -> None:
        stream = await cluster.network.seen_from("client").connect(cluster.endpoint_of(1))
        with trio.fail_after(FIRST_REQUEST_S + 2), pytest.raises(trio.BrokenResourceError):
            await trickle(stream)

    on_sasl_cluster(send, tmp_path)


def test_a_new_user_may_log_in_at_once(tmp_path: Path) -> None:
    async def add(cluster: Cluster) -> None:
        login = Login(SCRAM_SHA_256, "alice", PASSWORD)
        with pytest.raises(NetworkError):
            await log_in(cluster, login)
        credential = ScramCredential.of_password("alice", SCRAM_SHA_256, PASSWORD)
        add_to_scram_file(str(tmp_path / "users"), [credential])
        await (await log_in(cluster, login)).aclose()

    on_sasl_cluster(add, tmp_path)


def test_node_that_is_refused_names_the_other_once(tmp_path: Path) -> None:
    async def refuse(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        network = SaslNetwork(cluster.network.seen_from("client"), Login(SCRAM_SHA_256, "node", Secret("x")), "test")
        client = NetworkClient(network, "test", cluster.random("client"), 2**20, 100)
        async with trio.open_nursery() as nursery:
            await nursery.start(client.run)
            with pytest.raises(NetworkError) as refused:
                async with client.lease(cluster.endpoint_of(1), 5000):
                    pass
            nursery.cancel_scope.cancel()
        assert str(refused.value).startswith(f"{cluster.endpoint_of(1)}: SASL: sasl_authentication_failed")

    on_sasl_cluster(refuse, tmp_path)
