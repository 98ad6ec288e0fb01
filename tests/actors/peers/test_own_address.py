"""A node looks whether anybody listens at the address that it announces; until then it stays out of the voter set."""

from __future__ import annotations

import json

import trio

from kraft_trio.client.claims import ask_all
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.simulation.world import DEAD_PORT
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.voter_change_requests import upgrade

DEAD = Endpoint("node-1", DEAD_PORT)


async def take(cluster: Cluster, *steps: str) -> None:
    for step in steps:
        await parse_step(step).take(cluster)


def listed(cluster: Cluster, node_id: int = 1) -> Endpoint | None:
    voter = cluster.nodes[node_id].log.voters.voters.get(1)
    return None if voter is None else voter.endpoints.get(LISTENER)


async def dead_address(cluster: Cluster) -> object:
    tell = cluster.nodes[1].tree.tell_status
    assert tell is not None
    return json.loads(await tell())["deadAddress"]


@on_cluster(voters=1)
async def test_a_leader_lists_its_new_address_once_somebody_listens_there(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    right = cluster.endpoint_of(1)
    await take(cluster, "misadvertise 1", "restart 1")
    await cluster.wait_for_leader()
    await trio.sleep(20)
    assert listed(cluster) == right, "nobody listens there"
    assert await dead_address(cluster) == str(DEAD)
    listener = await cluster.network.seen_from("node-1").listen(DEAD)
    await cluster.wait_until(lambda: listed(cluster) == DEAD)
    assert await dead_address(cluster) is None
    await listener.aclose()


@on_cluster(voters=1, kraft_version=0)
async def test_the_upgrade_lists_no_address_of_the_leader_where_nobody_listens(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    right = cluster.endpoint_of(1)
    await take(cluster, "misadvertise 1", "restart 1")
    leader = await cluster.wait_for_leader()
    assert (await upgrade(cluster, leader)).error == ErrorCode.none
    assert leader.log.voters.kraft_version == 1
    assert listed(cluster) == right, "the configured address"
    listener = await cluster.network.seen_from("node-1").listen(DEAD)
    await cluster.wait_until(lambda: listed(cluster) == DEAD)
    await listener.aclose()


UPGRADED_AT_A_DEAD_ADDRESS = """\
seed 951181
voters 1
observers 2
kraft-version 0
set kraft.voter.gossip.enable false

fair
at 2s
misadvertise 1
restart 1
at 3s
upgrade
at 10s
recover
"""


def test_a_quorum_upgraded_by_a_leader_at_a_dead_address_recovers() -> None:
    """Seed 951181: the upgrade listed the address, and without gossip nobody found the leader."""
    assert run_script(parse_script(UPGRADED_AT_A_DEAD_ADDRESS)).failure is None


@on_cluster(kraft_version=0)
async def test_the_upgrade_lists_no_address_of_a_follower_where_nobody_listens(cluster: Cluster) -> None:
    right = {cluster.endpoint_of(node_id) for node_id in (1, 2, 3)}
    await take(cluster, "kill 2", "elect 1", "misadvertise 2", "start 2", "settle")
    await take(cluster, "upgrade at 1", "settle")
    assert cluster.nodes[1].log.voters.kraft_version == 0, "nobody answers where voter 2 says that it listens"
    cluster.misadvertise([2], end=True)
    await take(cluster, "restart 2", "settle", "upgrade at 1", "settle")
    assert cluster.nodes[1].log.voters.kraft_version == 1
    assert {voter.endpoints.get(LISTENER) for voter in cluster.nodes[1].log.voters.voters} == right


@on_cluster()
async def test_explain_names_the_dead_address(cluster: Cluster) -> None:
    await take(cluster, "elect 2", "misadvertise 1", "restart 1")
    await cluster.wait_until_alike()
    network = cluster.network.seen_from("explain")
    situation = await ask_all(
        network, [cluster.endpoint_of(node_id) for node_id in (1, 2, 3)], timeout_ms=5000, fetch_timeout_ms=2000
    )
    [finding] = [finding for finding in findings(situation) if finding.code == "dead-address"]
    assert finding.text.startswith(f"Nobody listens at {DEAD}, which node 1 announces")


@on_cluster()
async def test_an_address_that_nothing_answers_is_not_held_against_the_node(cluster: Cluster) -> None:
    """Behind a NAT, a node may not reach its own."""
    await take(cluster, "elect 1", "misadvertise 1")
    cluster.machines[1].kill()
    await cluster.machines[1].wait_until_ended()
    listener = await cluster.network.seen_from("node-1").listen(DEAD)
    cluster.network.clog("node-1", "node-1")
    await take(cluster, "start 1")
    node = cluster.nodes[1]
    await trio.sleep(10)
    assert node.tree.own_address.may_be_listed
    assert node.tree.own_address.dead is None
    cluster.heal()
    await listener.aclose()
