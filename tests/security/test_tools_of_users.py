"""What the tools tell and do for users whom the nodes let in, or not, and who may not do everything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import trio

from kraft_trio.cli.logs.record_access import RecordAccess
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.claims import ask_all
from kraft_trio.client.connecting import open_connection
from kraft_trio.config.sasl_fields import SCRAM_SHA_256, Login
from kraft_trio.config.secret import Secret
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.errors import NetworkError, RefusedError
from kraft_trio.security.sasl_network import LoginRefusedError, SaslNetwork
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_file import add_to_scram_file
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.storage.batches.batch import NewRecord
from tests.security.test_sasl_cluster import PASSWORD, settings_of
from tests.support.on_cluster import run_on_cluster

RULES = """
[[allow]]
principal = "User:writer"
operations = ["WRITE"]
topic = "__cluster_metadata"

[[allow]]
principal = "User:reader"
operations = ["READ"]
topic = "__cluster_metadata"

[[allow]]
principal = "User:operator"
operations = ["DESCRIBE"]
"""
USERS = ("writer", "reader", "operator", "guest")


def setup_of(directory: Path) -> Setup:
    users = [ScramCredential.of_password(user, SCRAM_SHA_256, PASSWORD) for user in USERS]
    settings = settings_of(SCRAM_SHA_256, directory)
    add_to_scram_file(str(directory / "users"), users)
    (directory / "acl.toml").write_text(RULES)
    rules = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node",
        "kraft.acl.file": str(directory / "acl.toml"),
    }
    return Setup(voters=3, settings={**settings, **rules})


def network_of(cluster: Cluster, user: str, password: Secret = PASSWORD) -> SaslNetwork:
    return SaslNetwork(cluster.network.seen_from("client"), Login(SCRAM_SHA_256, user, password), "test")


async def one(value: bytes) -> AsyncIterator[Sequence[NewRecord]]:
    yield [NewRecord(value)]


async def appended(access: RecordAccess, value: bytes) -> list[int]:
    return [offset async for offset in access.append(one(value))]


async def read(access: RecordAccess) -> list[bytes | None]:
    return [record.value async for record in access.read(None, follow=False)]


def test_records_need_no_permission_on_the_cluster(tmp_path: Path) -> None:
    """A writer need not read, nor a reader write, and neither needs DESCRIBE on the cluster, as in Kafka."""

    async def test(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        nodes = [cluster.endpoint_of(node_id) for node_id in cluster.voter_ids]
        writer, reader, guest = (
            RecordAccess(nodes, 5_000, network_of(cluster, user)) for user in ("writer", "reader", "guest")
        )
        assert len(await appended(writer, b"written")) == 1
        assert await read(reader) == [b"written"]
        with pytest.raises(RefusedError, match="TOPIC_AUTHORIZATION_FAILED"):
            await read(writer)
        needed = "InitProducerId: cluster_authorization_failed; it needs WRITE on the topic"
        with pytest.raises(RefusedError, match=needed):
            await appended(reader, b"not written")
        with pytest.raises(NetworkError, match="User:guest may not DESCRIBE the cluster"):
            await read(guest)
        assert await read(reader) == [b"written"]

    run_on_cluster(test, setup_of(tmp_path))


def test_who_may_not_describe_the_cluster_hears_that_it_has_no_leader(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        for node_id in (1, 2):
            cluster.machines[node_id].kill()
        await trio.sleep(30)
        reader = RecordAccess([cluster.endpoint_of(3)], 5_000, network_of(cluster, "reader"))
        with pytest.raises(NetworkError, match="knows no leader, and answers cluster_authorization_failed"):
            await read(reader)

    run_on_cluster(test, setup_of(tmp_path))


def test_a_denied_change_is_told_without_a_reason_that_is_not_there(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        nodes = [cluster.endpoint_of(node_id) for node_id in cluster.voter_ids]
        client = AdminClient(nodes, network=network_of(cluster, "operator"))
        to = next(node_id for node_id in cluster.voter_ids if node_id != leader.key.id)
        with pytest.raises(RefusedError) as refused:
            await client.transfer_leadership(to)
        assert str(refused.value) == f"transfer leadership to node {to}: CLUSTER_AUTHORIZATION_FAILED"

    run_on_cluster(test, setup_of(tmp_path))


@pytest.mark.parametrize(("user", "password"), [("node", Secret("wrong")), ("nobody", PASSWORD)])
def test_nodes_that_refuse_the_login_are_not_called_silent(user: str, password: Secret, tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        network = network_of(cluster, user, password)
        nodes = [cluster.endpoint_of(node_id) for node_id in cluster.voter_ids]
        with pytest.raises(LoginRefusedError, match=rf"^{nodes[0]}: SASL: sasl_authentication_failed"):
            await open_connection(network, nodes[0], "test", 5_000)
        situation = await ask_all(network, nodes, timeout_ms=5_000, fetch_timeout_ms=2_000)
        assert [claim.refused_login for claim in situation.claims] == [f"User:{user}"] * 3
        [finding] = findings(situation)
        assert finding.code == "login"
        assert f"run, but refuse the login of User:{user} (SASL: sasl_authentication_failed" in finding.text

    run_on_cluster(test, setup_of(tmp_path))
