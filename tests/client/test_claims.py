"""Every node of a quorum is asked for its own view, whatever the others do."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kraft_trio.client.claims import ask_all, completed
from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState
from kraft_trio.config.sasl_fields import SCRAM_SHA_256, Login
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.diagnosis.quorum_findings import contradictions, findings
from kraft_trio.diagnosis.quorum_situation import Claim, Situation
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.security.sasl_network import SaslNetwork
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_file import add_to_scram_file
from kraft_trio.simulation import Cluster, Setup
from tests.security.test_sasl_cluster import PASSWORD, settings_of
from tests.support.on_cluster import on_cluster, run_on_cluster

TIMEOUT_MS = 1000


async def asked(cluster: Cluster, *node_ids: int) -> Situation:
    network = cluster.network.seen_from("10.9.9.9")
    nodes = [cluster.endpoint_of(node_id) for node_id in node_ids]
    return await ask_all(network, nodes, timeout_ms=TIMEOUT_MS, fetch_timeout_ms=2000)


def codes(situation: Situation) -> list[str]:
    return [finding.code for finding in findings(situation)]


@on_cluster()
async def test_a_voter_that_is_cut_off_tells_why_it_does_not_fetch(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    lonely, _ = cluster.others(leader)
    cluster.partition({lonely.key.id}, set(cluster.voter_ids) - {lonely.key.id})
    await cluster.wait_until(lambda: lonely.view.leader_id is None)
    found = findings(await asked(cluster, *cluster.voter_ids))
    [text] = [finding.text for finding in found if finding.code == "voter-behind"]
    refused = f"{cluster.endpoint_of(leader.key.id)}: cannot connect: Connection refused"
    assert text.endswith(f"Its last Fetch failed: {refused}.")


@on_cluster()
async def test_one_node_leads_to_all_others(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"x"])
    await cluster.wait_until_alike()
    await trio.sleep(1)
    situation = await asked(cluster, 2)
    assert [claim.node_id for claim in situation.claims] == [1, 2, 3]
    for claim in situation.claims:
        assert (claim.problem, claim.epoch, claim.leader_id) == (None, leader.view.epoch, leader.key.id)
        assert claim.voter_ids == (1, 2, 3)
        assert claim.log_end == leader.log.end
        assert not contradictions(situation, claim)
    assert codes(situation) == ["survival"]


@on_cluster(witnesses=(2,))
async def test_witness_tells_that_it_is_one(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    situation = await asked(cluster, 1, 2, 3)
    assert [claim.node_id for claim in situation.claims if claim.is_witness] == [2]


@on_cluster()
async def test_a_node_that_hangs_delays_no_other(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await trio.sleep(1)
    cluster.machines[3].pause()
    began_s = trio.current_time()
    situation = await asked(cluster, 1, 2, 3)
    assert trio.current_time() - began_s < 2 * TIMEOUT_MS / 1000
    assert [claim.problem is None for claim in situation.claims] == [True, True, False]
    assert situation.claims[2].node_id == 3


@on_cluster()
async def test_without_a_leader_the_silent_voters_are_named(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    dead, living = [node_id for node_id in (1, 2, 3) if node_id != leader.key.id], leader.key.id
    for node_id in dead:
        cluster.machines[node_id].kill()
    await cluster.wait_until(lambda: cluster.nodes[living].view.leader_id is None)
    situation = await asked(cluster, living)
    [finding] = findings(situation)
    assert finding.code == "no-majority"
    assert f"Silent: {dead[0]} (" in finding.text
    assert f", {dead[1]} (" in finding.text


@on_cluster()
async def test_node_tells_of_a_change_that_is_not_committed(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()

    async def tell() -> str:
        return '{"uncommittedVoterChange": true}'

    leader.tree.tell_status = tell
    situation = await asked(cluster, 1, 2, 3)
    assert [claim.node_id for claim in situation.claims if claim.has_uncommitted_change] == [leader.key.id]


KAFKA = QuorumDescription("c", 1, 5, 90, (ReplicaState(ReplicaKey(1), 100), ReplicaState(ReplicaKey(2), 95)))


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (Claim("a:1", None, 1), (100, 90)),
        (Claim("a:1", None, 2), (95, None)),
        (Claim("a:1", None, 3), (None, None)),
        (Claim("a:1", None), (None, None)),
        (Claim("a:1", "refused", 1), (None, None)),
        (Claim("a:1", None, 1, log_end=OffsetAndEpoch(7, 1), high_watermark=7), (None, None)),
    ],
)
def test_leader_tells_what_controllers_of_kafka_do_not(claim: Claim, expected: tuple[int | None, int | None]) -> None:
    found = completed(claim, KAFKA)
    assert (found.reported_end, found.reported_high_watermark) == expected


def authorizing(directory: Path) -> dict[str, str]:
    """Nodes are super users.  `alice` is a user without rights."""
    settings = settings_of(SCRAM_SHA_256, directory)
    add_to_scram_file(str(directory / "users"), [ScramCredential.of_password("alice", SCRAM_SHA_256, PASSWORD)])
    return {**settings, "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:node"}


def logged_in(cluster: Cluster, user: str) -> SaslNetwork:
    return SaslNetwork(cluster.network.seen_from("client"), Login(SCRAM_SHA_256, user, PASSWORD), "test")


def test_node_that_denies_is_not_called_silent(tmp_path: Path) -> None:
    """It runs, and says to whom it denies."""
    settings = authorizing(tmp_path)

    async def look(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"x"])
        await trio.sleep(1)
        nodes = [cluster.endpoint_of(node_id) for node_id in (1, 2, 3)]
        for user, denied_to, expected in (("alice", "User:alice", ["denied"]), ("node", None, ["survival"])):
            situation = await ask_all(logged_in(cluster, user), nodes, timeout_ms=TIMEOUT_MS, fetch_timeout_ms=2000)
            assert [(claim.problem, claim.node_id, claim.denial) for claim in situation.claims] == [
                (None, node_id, denied_to) for node_id in (1, 2, 3)
            ]
            assert codes(situation) == expected

    run_on_cluster(look, Setup(settings=settings))


def test_client_that_may_not_describe_the_topic_is_told_who_is_silent(tmp_path: Path) -> None:
    """The cluster's DESCRIBE is what the dashboard asks for.  Metadata then has no topic, and so no voters."""
    rules = tmp_path / "acl.toml"
    rules.write_text('[[allow]]\nprincipal = "User:alice"\noperations = ["DESCRIBE"]\n')
    settings = {**authorizing(tmp_path), "kraft.acl.file": str(rules)}

    async def look(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        living = leader.key.id
        for node in cluster.others(leader):
            cluster.machines[node.key.id].kill()
        await cluster.wait_until(lambda: cluster.nodes[living].view.leader_id is None)
        network = logged_in(cluster, "alice")
        nodes = [cluster.endpoint_of(node_id) for node_id in (1, 2, 3)]
        situation = await ask_all(network, nodes, timeout_ms=TIMEOUT_MS, fetch_timeout_ms=2000)
        assert situation.voter_ids == (1, 2, 3)
        assert codes(situation) == ["no-majority"]

    run_on_cluster(look, Setup(settings=settings))


def test_voter_whose_fetches_are_denied_tells_so(tmp_path: Path) -> None:
    rules = tmp_path / "acl.toml"
    rules.write_text("")
    settings = {**authorizing(tmp_path), "kraft.acl.file": str(rules)}

    async def look(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        denied, _ = cluster.others(leader)
        rules.write_text(f'[[voter]]\nprincipal = "User:another"\nnode-id = {denied.key.id}\n')
        await cluster.wait_until(lambda: denied.tree.fetch_problem.reason is not None)
        await trio.sleep(2 * denied.config.fetch_timeout_ms / 1000)
        network = logged_in(cluster, "node")
        nodes = [cluster.endpoint_of(node_id) for node_id in (1, 2, 3)]
        found = findings(await ask_all(network, nodes, timeout_ms=TIMEOUT_MS, fetch_timeout_ms=2000))
        [text] = [finding.text for finding in found if finding.code == "voter-behind"]
        assert "cluster_authorization_failed" in text

    run_on_cluster(look, Setup(settings=settings))


def test_leader_that_denies_what_another_node_passes_on_is_named(tmp_path: Path) -> None:
    """Not that node, which has let the operator ask."""
    rules = tmp_path / "acl.toml"
    rules.write_text('[[allow]]\nprincipal = "User:node"\noperations = ["CLUSTER_ACTION"]\n')
    settings = {**authorizing(tmp_path), "super.users": "User:alice", "kraft.acl.file": str(rules)}

    async def look(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        rules.write_text("")
        follower, _ = cluster.others(leader)
        await cluster.wait_until(lambda: follower.tree.fetch_problem.reason is not None)
        nodes = [cluster.endpoint_of(follower.key.id)]
        situation = await ask_all(logged_in(cluster, "alice"), nodes, timeout_ms=TIMEOUT_MS, fetch_timeout_ms=2000)
        claim = next(one for one in situation.claims if one.node_id == follower.key.id)
        assert (claim.denial, claim.denied_as) == (None, "User:node")
        [text] = [one.text for one in findings(situation) if one.code == "node-denied" and claim.name in one.text]
        assert text.startswith(
            f"The leader denies node {follower.key.id} CLUSTER_ACTION as User:node. Name that in the"
        )

    run_on_cluster(look, Setup(settings=settings))
