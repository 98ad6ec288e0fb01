"""controller.quorum.auto.join.enable: a controller that is no voter makes itself one (KIP-853 "Auto joining")."""

from __future__ import annotations

import attrs
import trio

from kraft_trio.config.values import NamedListener
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.machine import Machine
from kraft_trio.storage.directory.removal_marker import RemovalMarker
from kraft_trio.wire.api import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.new_disk import replace_disk_of_a_follower
from tests.support.on_cluster import on_cluster
from tests.support.voter_change_requests import remove_voter, voters_everywhere

JOIN = {"controller.quorum.auto.join.enable": "true"}


def asked(cluster: Cluster, node_id: int) -> tuple[int, int]:
    """How many additions and removals that node has asked for."""
    sent, host = cluster.network.requests_sent, cluster.machines[node_id].host
    return sent[host, ADD_RAFT_VOTER.key], sent[host, REMOVE_RAFT_VOTER.key]


@on_cluster(voters=1, observers=2, settings=JOIN)
async def test_one_voter_becomes_three(cluster: Cluster) -> None:
    await cluster.wait_until(lambda: voters_everywhere(cluster, 1, 2, 3))
    leader = await cluster.wait_for_leader()
    await leader.append([b"value"])
    await cluster.wait_until_alike()
    assert asked(cluster, 1) == (0, 0)
    assert leader.view.epoch == 1


@on_cluster(settings=JOIN)
async def test_a_new_disk_takes_the_place_of_the_old_one(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    old, new = await replace_disk_of_a_follower(cluster, leader)
    await cluster.wait_until(
        lambda: all(node.log.voters.voters.is_voter(new) for node in cluster.nodes.values()), within_s=20
    )
    assert not leader.log.voters.voters.is_voter(old)
    assert leader.log.voters.voters.ids == (1, 2, 3)
    assert asked(cluster, new.id) == (1, 1), "removed the old one, added the new one"


@on_cluster(observers=1)
async def test_it_is_off_by_default(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await trio.sleep(10)
    assert asked(cluster, 4) == (0, 0)
    assert voters_everywhere(cluster, 1, 2, 3)


@on_cluster(observers=1, settings=JOIN | {"process.roles": "broker"}, voters=1, started=(1, 2))
async def test_brokers_do_not_join(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await trio.sleep(10)
    assert asked(cluster, 2) == (0, 0)
    assert voters_everywhere(cluster, 1)


@on_cluster(observers=1, settings=JOIN, kraft_version=0)
async def test_static_voters_are_not_joined(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await trio.sleep(10)
    assert asked(cluster, 4) == (0, 0)


@on_cluster(settings=JOIN)
async def test_a_removed_voter_stays_away(cluster: Cluster) -> None:
    """KAFKA-19850, over restarts too; on a new disk, it is another replica and joins."""
    leader = await cluster.wait_for_leader()
    machine = cluster.machines[cluster.others(leader)[0].key.id]
    rest = tuple(id for id in cluster.voter_ids if id != machine.id)
    assert (await remove_voter(cluster, leader, cluster.key_of(machine.id))).error == ErrorCode.none
    await trio.sleep(10)
    machine.kill()
    await machine.wait_until_ended()
    await machine.start()
    await trio.sleep(10)
    assert voters_everywhere(cluster, *rest)
    assert asked(cluster, machine.id) == (0, 0)
    machine.kill()
    await machine.wait_until_ended()
    machine.replace_disk()
    await machine.start()
    await cluster.wait_until(lambda: voters_everywhere(cluster, 1, 2, 3))


@on_cluster(voters=1, observers=1, settings=JOIN)
async def test_a_leader_that_answers_late_only_is_joined_too(cluster: Cluster) -> None:
    """One older than KIP-1186 answers when the change has committed, for which the joiner has to keep fetching."""
    cluster.network.cap_versions(cluster.machines[1].host, {ADD_RAFT_VOTER.key: 0})
    await cluster.wait_until(lambda: voters_everywhere(cluster, 1, 2), within_s=20)


@on_cluster(observers=1, settings=JOIN, started=(1, 2, 3))
async def test_a_joiner_tries_again_until_it_is_in(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    cluster.network.lose_answers(ADD_RAFT_VOTER, times=1)
    await cluster.machines[4].start()
    await cluster.wait_until(lambda: voters_everywhere(cluster, 1, 2, 3, 4), within_s=20)
    await trio.sleep(10)
    assert asked(cluster, 4)[0] <= 2


async def with_new_disk(cluster: Cluster) -> tuple[Node, Machine]:
    """The leader, and a follower's machine that has a blank disk and is yet to be started."""
    leader = await cluster.wait_for_leader()
    machine = cluster.machines[cluster.others(leader)[0].key.id]
    machine.kill()
    await machine.wait_until_ended()
    machine.replace_disk()
    return leader, machine


@on_cluster(settings=JOIN)
async def test_old_incarnation_stays_until_the_new_one_is_reached(cluster: Cluster) -> None:
    leader, machine = await with_new_disk(cluster)
    elsewhere = Endpoint("nowhere", 1)
    moved = (NamedListener("CONTROLLER", elsewhere),)
    cluster._configs[machine.id] = attrs.evolve(config := machine.config, advertised_listeners=moved)
    await machine.start()
    await trio.sleep(30)
    assert asked(cluster, machine.id) == (0, 0)
    assert len(leader.log.voters.voters) == 3
    cluster._configs[machine.id] = config
    await machine.stop()
    await machine.start()
    await cluster.wait_until(
        lambda: voters_everywhere(cluster, 1, 2, 3) and leader.log.voters.voters.is_voter(cluster.key_of(machine.id)),
        within_s=20,
    )


@on_cluster(settings=JOIN)
async def test_mark_alone_keeps_a_removed_voter_out(cluster: Cluster) -> None:
    """As after a snapshot of Apache Kafka's, which names no removed voters: neither log nor snapshot tells."""
    leader, machine = await with_new_disk(cluster)
    key = cluster.key_of(machine.id)
    await RemovalMarker(machine.disk, machine.partition_path, key).set()
    await machine.start()
    await trio.sleep(20)
    assert asked(cluster, machine.id) == (0, 0)
    assert not leader.log.voters.voters.is_voter(key)
