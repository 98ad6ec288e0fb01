"""Voters find each other although no endpoint in the log is right any more (KIP-642 "Quorum Bootstrapping")."""

from __future__ import annotations

import attrs
import pytest
import trio

from kraft_trio.actors.peers.bootstrap_servers import BootstrapServers
from kraft_trio.protocol.gossip import MAX_ADVERTISEMENTS, MAX_BOOT, Advertisement
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER, PORT
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.storage.directory.boot_counter import BootCounter
from kraft_trio.wire.api import DISCOVER_VOTERS
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest, DiscoverVotersResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.support import sizes
from tests.support.epoch_context import voters_of
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import STRANGER, RawClient

FETCH_TIMEOUT_S = 2.0
OFF = {"kraft.voter.gossip.enable": "false"}
ELSEWHERE = Endpoint("elsewhere", 1)


async def move_everybody(cluster: Cluster) -> None:
    """All nodes go down together, and come back at other addresses."""
    for machine in cluster.machines.values():
        machine.kill()
    for id, machine in cluster.machines.items():
        await machine.wait_until_ended()
        cluster.move(id)


async def start_everybody(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        await machine.start()


def logged(cluster: Cluster, node_id: int) -> list[Endpoint | None]:
    """The endpoints of the voters in that node's log."""
    return [voter.endpoints.get(LISTENER) for voter in cluster.nodes[node_id].log.voters.voters]


def advertised(key: ReplicaKey, endpoint: Endpoint = ELSEWHERE, boot: int = 1) -> Advertisement:
    return Advertisement(key, boot, 1, Endpoints({LISTENER: endpoint}))


async def told(cluster: Cluster, node_id: int, *advertisements: Advertisement) -> DiscoverVotersResponse:
    """The node's response to a request with these advertisements."""
    async with RawClient.connected(cluster, node_id) as client:
        return await client.ask(DISCOVER_VOTERS, DiscoverVotersRequest(CLUSTER_ID, advertisements))


@on_cluster(voters=1, observers=1)
async def test_a_voter_that_its_own_log_does_not_name_is_found(cluster: Cluster) -> None:
    """Seed 512: the only log with the newest voter set needs the vote of a node that has never seen that set."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    cluster.partition({1}, {2})
    assert leader.election.leading is not None
    leader.election.leading.append_control(VotersRecord(voters_of(cluster, [1, 2])))
    await leader.log.sync()
    await move_everybody(cluster)
    cluster.heal()
    await start_everybody(cluster)
    await cluster.wait_for_leader(within_s=10 * FETCH_TIMEOUT_S)


@pytest.mark.parametrize("voters", [3, 5])
def test_a_quorum_that_has_moved_elects_again(voters: int) -> None:
    @on_cluster(voters=voters, observers=1)
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await leader.append([b"before"])
        await cluster.wait_until_alike()
        await move_everybody(cluster)
        await start_everybody(cluster)
        leader = await cluster.wait_for_leader(within_s=10 * FETCH_TIMEOUT_S)
        await leader.append([b"after"])
        # UpdateRaftVoter makes it durable, the leader's own endpoint too.
        here = [cluster.endpoint_of(id) for id in cluster.voter_ids]
        await cluster.wait_until(lambda: logged(cluster, leader.key.id) == here, within_s=10 * FETCH_TIMEOUT_S)

    scenario()


@on_cluster(settings=OFF)
async def test_without_gossip_it_never_does(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await move_everybody(cluster)
    await start_everybody(cluster)
    with pytest.raises(trio.TooSlowError):
        await cluster.wait_for_leader(within_s=(100 if sizes.IS_ALL else 20) * FETCH_TIMEOUT_S)


@on_cluster()
async def test_a_load_balancers_name_is_enough(cluster: Cluster) -> None:
    """The name stands for all nodes, and each connection to it reaches another one."""
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await move_everybody(cluster)
    cluster.network.names["quorum"] = tuple(f"node-{id}" for id in cluster.voter_ids)
    for id in cluster.voter_ids:
        config = cluster.config_of(id)
        cluster._configs[id] = attrs.evolve(config, quorum_bootstrap_servers=(Endpoint("quorum", PORT + 1),))
    await start_everybody(cluster)
    await cluster.wait_for_leader(within_s=10 * FETCH_TIMEOUT_S)


@on_cluster()
async def test_the_name_is_resolved_anew_at_each_try(cluster: Cluster) -> None:
    """At first it still stands for machines that nobody has any more."""
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await move_everybody(cluster)
    cluster.network.names["quorum"] = ("gone-1", "gone-2")
    for id in cluster.voter_ids:
        config = cluster.config_of(id)
        cluster._configs[id] = attrs.evolve(config, quorum_bootstrap_servers=(Endpoint("quorum", PORT + 1),))
    await start_everybody(cluster)
    await trio.sleep(20 * FETCH_TIMEOUT_S)
    assert cluster.leader() is None
    cluster.network.names["quorum"] = ("gone-1", *(f"node-{id}" for id in cluster.voter_ids))
    await cluster.wait_for_leader(within_s=10 * FETCH_TIMEOUT_S)


@on_cluster(observers=1)
async def test_a_name_whose_resolver_is_silent_holds_up_no_discovery(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = await cluster.wait_for_leader()
    real = BootstrapServers.addresses_of

    async def addresses_of(self: BootstrapServers, server: Endpoint) -> tuple[Endpoint, ...]:
        if server.host == ELSEWHERE.host:
            await trio.sleep_forever()
        return await real(self, server)

    monkeypatch.setattr(BootstrapServers, "addresses_of", addresses_of)
    servers = (*(Endpoint(ELSEWHERE.host, port) for port in range(1, 11)), cluster.endpoint_of(1))
    cluster.machines[4].kill()
    await cluster.machines[4].wait_until_ended()
    cluster._configs[4] = attrs.evolve(cluster.config_of(4), quorum_bootstrap_servers=servers)
    await cluster.machines[4].start()
    await cluster.wait_until(lambda: cluster.nodes[4].view.leader_id == leader.key.id, within_s=100 * FETCH_TIMEOUT_S)


@on_cluster(voters=5)
async def test_one_that_stayed_brings_the_others_together(cluster: Cluster) -> None:
    """Without bootstrap servers: 2 and 3 know the endpoint of 1 alone, and 1 passes on theirs."""
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    await move_everybody(cluster)
    cluster._moves[1] = 0
    for id in (1, 2, 3):
        cluster._configs[id] = attrs.evolve(cluster.config_of(id), quorum_bootstrap_servers=())
        await cluster.machines[id].start()
    await cluster.wait_for_leader(within_s=10 * FETCH_TIMEOUT_S)


@on_cluster()
async def test_the_boot_number_rises_with_each_process(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    for boot in (1, 2):
        (own, *_) = (await told(cluster, 1)).advertisements
        assert own == advertised(cluster.key_of(1), cluster.endpoint_of(1), boot) or own.boot == boot
        assert BootCounter(cluster.machines[1].disk, "/data").value == boot
        cluster.machines[1].kill()
        await cluster.machines[1].start()


@on_cluster()
async def test_a_counter_that_fails_is_not_tried_for_each_request(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.wait_for_leader()
    tries: list[int] = []

    async def fails(_self: BootCounter, value: int) -> None:
        tries.append(value)
        raise OSError("no space left")

    monkeypatch.setattr(BootCounter, "raise_to", fails)
    for tried in (1, 2):
        for _ in range(20):
            assert cluster.key_of(1) not in {it.key for it in (await told(cluster, 1)).advertisements}
        assert len(tries) == tried
        await trio.sleep(FETCH_TIMEOUT_S)
    monkeypatch.undo()
    assert cluster.key_of(1) in {it.key for it in (await told(cluster, 1)).advertisements}


# What strangers say


@on_cluster()
async def test_nobody_becomes_a_voter_by_gossip(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    before = leader.log.voters.voters
    another_disk = ReplicaKey(2, STRANGER.directory_id)
    response = await told(cluster, 1, advertised(STRANGER), advertised(another_disk))
    assert {it.key for it in response.advertisements} <= {voter.key for voter in before}
    assert leader.log.voters.voters == before


@on_cluster()
async def test_a_lie_is_overtaken_by_the_voter_itself(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    lie = advertised(cluster.key_of(2), boot=50)
    assert lie in (await told(cluster, 1, lie)).advertisements
    own, *_ = (await told(cluster, 2, lie)).advertisements
    assert (own.key, own.boot) == (cluster.key_of(2), 51)
    assert BootCounter(cluster.machines[2].disk, "/data").value == 51
    assert own in (await told(cluster, 1, own)).advertisements


@on_cluster()
async def test_a_voter_with_the_highest_number_starts_again(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await told(cluster, 2, advertised(cluster.key_of(2), boot=MAX_BOOT - 1))
    for _ in range(2):
        own, *_others = (await told(cluster, 2)).advertisements
        assert (own.key, own.boot, own.defect()) == (cluster.key_of(2), MAX_BOOT, None)
        cluster.machines[2].kill()
        await cluster.machines[2].start()


@pytest.mark.parametrize("boot", [10, MAX_BOOT])
def test_lies_do_not_keep_a_moved_quorum_apart(boot: int) -> None:
    """Each voter is told before the election that the two others are at each other's place, or nowhere."""

    @on_cluster()
    async def scenario(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        await move_everybody(cluster)
        await start_everybody(cluster)
        for id in cluster.voter_ids:
            one, two = (other for other in cluster.voter_ids if other != id)
            swapped = advertised(cluster.key_of(one), cluster.endpoint_of(two), boot)
            nowhere = advertised(cluster.key_of(two), boot=boot)
            await told(cluster, id, swapped, nowhere)
        await cluster.wait_for_leader(within_s=30 * FETCH_TIMEOUT_S)

    scenario()


@on_cluster()
async def test_lies_do_not_reach_a_quorum_at_its_logged_endpoints(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    for id in cluster.voter_ids:
        others = (cluster.key_of(other) for other in cluster.voter_ids if other != id)
        await told(cluster, id, *(advertised(key, boot=MAX_BOOT) for key in others))
    leader_id = leader.key.id
    cluster.machines[leader_id].kill()
    await cluster.wait_for_leader(other_than=leader, within_s=5 * FETCH_TIMEOUT_S)


@on_cluster()
async def test_requests_beyond_the_bounds_are_refused(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    one = advertised(cluster.key_of(2))
    assert (await told(cluster, 1, *[one] * (MAX_ADVERTISEMENTS + 1))).error == ErrorCode.invalid_request
    async with RawClient.connected(cluster, 1) as client:
        foreign = await client.ask(DISCOVER_VOTERS, DiscoverVotersRequest("another-cluster", (one,)))
        assert foreign == DiscoverVotersResponse(ErrorCode.inconsistent_cluster_id)
        request = DiscoverVotersRequest(CLUSTER_ID)
        answers = [(await client.ask(DISCOVER_VOTERS, request)).error for _ in range(1000)]
    assert ErrorCode.throttling_quota_exceeded in answers
    await trio.sleep(FETCH_TIMEOUT_S)
    assert (await told(cluster, 1)).error == ErrorCode.none


@on_cluster(settings=OFF)
async def test_it_is_not_served_when_it_is_off(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    async with RawClient.connected(cluster, 1) as client:
        assert DISCOVER_VOTERS.key not in client.connection.peer_versions
    assert cluster.machines[1].disk.peek("/data/boot-counter") is None


# The zombie leader


@on_cluster(observers=1)
async def test_a_zombie_leader_learns_of_its_successor(cluster: Cluster) -> None:
    """It reaches no voter, but an observer among the bootstrap servers follows the new leader."""
    zombie = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    others = [f"node-{node.key.id}" for node in cluster.others(zombie)]
    apart = cluster.network.partition([f"node-{zombie.key.id}"], [*others, "node-4"], silent=False)
    successor = await cluster.wait_for_leader(other_than=zombie)
    await cluster.wait_until(lambda: cluster.nodes[4].view.leader_id == successor.key.id)
    assert isinstance(zombie.view.role, Leader)
    cluster.network.bridge("node-4", [f"node-{zombie.key.id}"], others, silent=False)
    cluster.network.heal(apart)
    await cluster.wait_until(lambda: zombie.view.epoch == successor.view.epoch, within_s=FETCH_TIMEOUT_S / 8)
