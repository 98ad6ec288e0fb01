"""`connections.max.reauth.ms` (KIP-368): sessions end, and whoever renews them in time notices nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import patch

import pytest
import trio

from kraft_trio.config.sasl_fields import MECHANISMS, SCRAM_SHA_256, Login
from kraft_trio.errors import NetworkError
from kraft_trio.security.sasl_network import SaslNetwork
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_file import add_to_scram_file
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.wire.api import DESCRIBE_QUORUM, FETCH, SASL_HANDSHAKE
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode
from tests.security.test_sasl_cluster import PASSWORD, log_in, settings_of
from tests.support.on_cluster import run_on_cluster
from tests.support.raw_client import TOPIC, TOPIC_ID

SESSION_S = 4
USER = Login(SCRAM_SHA_256, "node", PASSWORD)


def with_sessions(
    test: Callable[[Cluster], Awaitable[None]], directory: Path, mechanism: str = SCRAM_SHA_256, *, voters: int = 1
) -> None:
    settings = {**settings_of(mechanism, directory), "connections.max.reauth.ms": str(SESSION_S * 1000)}
    run_on_cluster(test, Setup(voters=voters, settings=settings))


def metric(cluster: Cluster, name: str, node_id: int = 1) -> float | str:
    return cluster.nodes[node_id].metrics.values()[name]


async def describe(connection: Connection) -> DescribeQuorumResponse:
    return await connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nodes_renew_their_sessions_in_time(mechanism: str, tmp_path: Path) -> None:
    """On open connections: none of them closes in ten sessions."""

    async def run(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        stamp = leader.view.stamp
        await trio.sleep(1)
        handshakes = cluster.network.requests_sent.copy()
        failed = [metric(cluster, "number-of-failed-authentications", node_id) for node_id in cluster.voter_ids]
        for _ in range(10):
            await trio.sleep(SESSION_S)
            await leader.append([b"value"])
        await cluster.wait_until_alike()
        assert leader.view.stamp == stamp
        for node_id, before in zip(cluster.voter_ids, failed, strict=True):
            assert metric(cluster, "number-of-expired-sessions", node_id) == 0
            assert metric(cluster, "number-of-failed-authentications", node_id) == before
        for follower in cluster.others(leader):
            host = cluster.machines[follower.key.id].host
            assert cluster.network.requests_sent[host, SASL_HANDSHAKE.key] >= handshakes[host, SASL_HANDSHAKE.key] + 9

    with_sessions(run, tmp_path, mechanism, voters=3)


def test_voters_renew_their_sessions_beside_a_flood_of_handshakes(tmp_path: Path) -> None:
    """Strangers who begin a handshake wait for each other.  A voter that fetches must not wait behind them."""

    async def never(_units: int, _peer: str) -> None:
        await trio.sleep_forever()

    async def run(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        stamp, lanes = leader.view.stamp, leader.tree.server._lanes
        assert lanes is not None
        with patch.multiple(lanes.beginnings, enter_now=lambda _units: False, enter=never):
            await trio.sleep(3 * SESSION_S)
        assert leader.view.stamp == stamp

    with_sessions(run, tmp_path, voters=3)


def test_client_renews_its_session_also_after_its_end(tmp_path: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        connection = await log_in(cluster, USER)
        for pause_s in (0, 1, 3, 1, 5 * SESSION_S, 3.9):
            await trio.sleep(pause_s)
            assert (await describe(connection)).error is ErrorCode.none
        assert metric(cluster, "number-of-expired-sessions") == 0
        await connection.aclose()

    with_sessions(ask, tmp_path)


def test_session_that_is_not_renewed_ends_at_the_next_request(tmp_path: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        connection = await log_in(cluster, USER)
        connection._session = None
        await trio.sleep(SESSION_S - 1)
        assert (await describe(connection)).error is ErrorCode.none
        await trio.sleep(1.1)
        assert connection.usable
        with pytest.raises(NetworkError):
            await describe(connection)
        assert metric(cluster, "number-of-expired-sessions") == 1
        assert metric(cluster, "number-of-malformed-requests") == 0

    with_sessions(ask, tmp_path)


def test_requests_under_way_are_answered_before_a_session_is_renewed(tmp_path: Path) -> None:
    """Also those that wait at the leader."""

    async def ask(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        connection = await log_in(cluster, USER)
        end = leader.log.end_offset
        waiting = FetchPartition(topic_name=TOPIC, topic_id=TOPIC_ID, partition=0, fetch_offset=end, max_bytes=2**20)
        fetch = FetchRequest(replica_id=-1, max_wait_ms=100, min_bytes=1, partitions=(waiting,))
        await trio.sleep(0.9 * SESSION_S)
        assert connection._session is not None
        due_s, connection._session.due_s = connection._session.due_s, float("inf")
        for _ in range(3):
            await connection.begin(FETCH, fetch)
        connection._session.due_s = due_s
        await connection.begin(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
        assert connection._session.due_s > trio.current_time()
        for _ in range(3):
            assert (await connection.finish(FETCH)).partitions[0].error is ErrorCode.none
        assert (await connection.finish(DESCRIBE_QUORUM)).leader_id == 1
        await connection.aclose()

    with_sessions(ask, tmp_path)


def test_user_may_not_change_on_a_connection(tmp_path: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        add_to_scram_file(str(tmp_path / "users"), [ScramCredential.of_password("alice", SCRAM_SHA_256, PASSWORD)])
        network = SaslNetwork(cluster.network.seen_from("client"), USER, "test")
        stream = await network.connect(cluster.endpoint_of(1))
        assert stream.session is not None
        stream.session.login = Login(SCRAM_SHA_256, "alice", PASSWORD)  # type: ignore[attr-defined]
        connection = await Connection.negotiated(stream, "test", 2**20)
        await trio.sleep(SESSION_S)
        with pytest.raises(NetworkError, match="sasl_authentication_failed"):
            await describe(connection)
        assert metric(cluster, "number-of-failed-authentications") == 1

    with_sessions(ask, tmp_path)


def test_removed_user_is_out_with_the_session(tmp_path: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        users = tmp_path / "users"
        kept = users.read_bytes()
        add_to_scram_file(str(users), [ScramCredential.of_password("alice", SCRAM_SHA_256, PASSWORD)])
        connection = await log_in(cluster, Login(SCRAM_SHA_256, "alice", PASSWORD))
        users.write_bytes(kept)
        assert (await describe(connection)).error is ErrorCode.none
        await trio.sleep(SESSION_S)
        with pytest.raises(NetworkError, match="sasl_authentication_failed"):
            await describe(connection)

    with_sessions(ask, tmp_path)


def test_sessions_are_not_renewed_all_the_time(tmp_path: Path) -> None:
    async def ask(cluster: Cluster) -> None:
        connection = await log_in(cluster, USER)
        handshake = await connection.request(SASL_HANDSHAKE, SaslHandshakeRequest(SCRAM_SHA_256))
        assert handshake.error is ErrorCode.illegal_sasl_state
        await trio.sleep(1)
        handshake = await connection.request(SASL_HANDSHAKE, SaslHandshakeRequest(SCRAM_SHA_256))
        assert handshake.error is ErrorCode.none
        with pytest.raises(NetworkError):
            await describe(connection)

    with_sessions(ask, tmp_path)
