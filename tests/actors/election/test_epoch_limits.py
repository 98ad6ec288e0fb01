"""One frame must not use up the epochs (protocol/epoch_limits.py), and an honest peer far ahead must be followed."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft_trio.node import Node
from kraft_trio.protocol.epoch_limits import (
    EPOCHS_AT_ONCE,
    LAST_ANSWERED_EPOCH,
    LAST_REQUESTED_EPOCH,
    MAX_EPOCH,
)
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import Endpoints
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID
from kraft_trio.storage.directory.quorum_state import decode_quorum_state, encode_quorum_state, with_crc
from kraft_trio.wire.api import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, VOTE
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.actors.test_rules import vote_request
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, STRANGER, TOPIC, TOPIC_ID, RawClient

QUORUM_STATE = f"/data/{TOPIC}-0/quorum-state"

KINDS = ["vote", "pre-vote", "begin", "end", "fetch"]


async def send(cluster: Cluster, node_id: int, kind: str, epoch: int) -> ErrorCode:
    """Send a stranger's request that names that epoch; the partition's error in the answer.

    It names no address, which would be a reason of its own to refuse it (test_strange_leaders.py).
    """
    answer: Any
    async with RawClient.connected(cluster, node_id) as client:
        if kind == "begin":
            begin = BeginQuorumEpochRequest(
                CLUSTER_ID, -1, TOPIC, 0, STRANGER.directory_id, STRANGER.id, epoch, Endpoints()
            )
            answer = await client.ask(BEGIN_QUORUM_EPOCH, begin)
        elif kind == "end":
            end = EndQuorumEpochRequest(CLUSTER_ID, TOPIC, 0, STRANGER.id, epoch)
            answer = await client.ask(END_QUORUM_EPOCH, end)
        elif kind == "fetch":
            partition = FetchPartition(TOPIC, TOPIC_ID, 0, 0, 2**20, current_leader_epoch=epoch, last_fetched_epoch=0)
            request = FetchRequest(CLUSTER_ID, STRANGER.id, max_wait_ms=0, partitions=(partition,))
            [fetched] = (await client.ask(FETCH, request)).partitions
            return fetched.error
        else:
            vote = vote_request(STRANGER, epoch, 10**6, 0, pre_vote=kind == "pre-vote")
            answer = await client.ask(VOTE, vote)
    assert answer.error == ErrorCode.none
    return answer.partition_error  # type: ignore[no-any-return]


def store_epochs(cluster: Cluster, *node_ids: int, epoch: int) -> None:
    """Let the quorum-state of stopped nodes say that."""
    for node_id in node_ids:
        disk = cluster.machines[node_id].disk
        disk.is_attached = True
        disk.replace_now(QUORUM_STATE, with_crc(encode_quorum_state(ElectionState(epoch), 1, VoterSet())))


def stored_epoch(cluster: Cluster, node_id: int) -> int:
    return decode_quorum_state(QUORUM_STATE, cluster.machines[node_id].disk.read_bytes(QUORUM_STATE)).epoch


async def restart_all(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        machine.kill()
        await machine.wait_until_ended()
    for machine in cluster.machines.values():
        await machine.start()


async def follower_of(cluster: Cluster, leader: Node) -> int:
    await cluster.wait_until_alike()
    return cluster.others(leader)[0].key.id


@pytest.mark.rotating(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beyond", [-1, 0, 1])
@on_cluster(invariants=FORGED)
async def test_a_request_moves_by_the_allowance_at_most(cluster: Cluster, kind: str, beyond: int) -> None:
    leader = await cluster.wait_for_leader()
    node_id = await follower_of(cluster, leader)
    await trio.sleep(10)  # the first election has taken some of the allowance
    before = cluster.nodes[node_id].view.epoch
    named = before + EPOCHS_AT_ONCE + beyond
    error = await send(cluster, node_id, kind, named)
    if kind == "fetch" or beyond == 1:
        assert (error, stored_epoch(cluster, node_id)) == (ErrorCode.unknown_leader_epoch, before)
    else:
        assert error in (ErrorCode.none, ErrorCode.invalid_voter_key)
        assert stored_epoch(cluster, node_id) >= named
    await (await cluster.wait_for_leader()).append([b"goes on"])
    await restart_all(cluster)
    await (await cluster.wait_for_leader()).append([b"after a restart"])


@pytest.mark.rotating(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("named", "behind"),
    [
        (LAST_REQUESTED_EPOCH - 1, 1),
        (LAST_REQUESTED_EPOCH, 1),
        (LAST_REQUESTED_EPOCH + 1, 1),
        (LAST_REQUESTED_EPOCH, LAST_REQUESTED_EPOCH),
        (MAX_EPOCH, LAST_REQUESTED_EPOCH),
        (MAX_EPOCH, MAX_EPOCH),
    ],
)
@on_cluster(invariants=FORGED, started=())
async def test_an_election_follows_a_frame_near_the_last_epochs(
    cluster: Cluster, kind: str, named: int, behind: int
) -> None:
    if named > behind:
        store_epochs(cluster, 1, 2, 3, epoch=named - behind)
    for machine in cluster.machines.values():
        await machine.start()
    await send(cluster, 1, kind, named)
    await (await cluster.wait_for_leader()).append([b"goes on"])
    await restart_all(cluster)
    leader = await cluster.wait_for_leader()
    await leader.append([b"after a restart"])
    assert leader.view.epoch <= max(named - behind + EPOCHS_AT_ONCE, named + 100)


@on_cluster(invariants=FORGED)
async def test_a_flood_of_frames_walks_nowhere(cluster: Cluster) -> None:
    """Each frame names what a quorum with a whole allowance would take."""
    leader = await cluster.wait_for_leader()
    began_at_s = cluster.now_s
    for number in range(200):
        node_id = number % 3 + 1
        await send(cluster, node_id, KINDS[number % 4], cluster.nodes[node_id].view.epoch + EPOCHS_AT_ONCE // 4)
    leader = await cluster.wait_for_leader()
    await leader.append([b"goes on"])
    elapsed_s = cluster.now_s - began_at_s
    assert leader.view.epoch <= 3 * (EPOCHS_AT_ONCE + elapsed_s) + 200


@pytest.mark.parametrize("ahead", [EPOCHS_AT_ONCE + 1, 10**6])
@on_cluster(invariants=FORGED, started=())
async def test_a_majority_with_a_node_far_behind_elects(cluster: Cluster, ahead: int) -> None:
    """2 was away while 1 and 3 held many elections; now it is needed for the majority."""
    store_epochs(cluster, 1, epoch=ahead)
    for node_id in (1, 2):
        await cluster.machines[node_id].start()
    leader = await cluster.wait_for_leader()
    await leader.append([b"goes on"])
    assert leader.view.epoch > ahead
    await cluster.wait_until_alike(1, 2)


@on_cluster(invariants=FORGED, started=())
async def test_a_node_far_behind_with_the_longer_log_leads(cluster: Cluster) -> None:
    """Only its vote request can bring the others to an epoch in which it may win, so it must learn theirs first."""
    for machine in cluster.machines.values():
        await machine.start()
    leader = await cluster.wait_for_leader()
    longest = leader.key.id
    others = [node.key.id for node in cluster.others(leader)]
    await cluster.wait_until_alike()
    cluster.machines[others[0]].kill()
    await leader.append([b"not on the first"])
    await cluster.wait_until_alike(longest, others[1])
    for machine in cluster.machines.values():
        machine.kill()
        await machine.wait_until_ended()
    store_epochs(cluster, others[0], epoch=10**6)
    for node_id in (longest, others[0]):
        await cluster.machines[node_id].start()
    leader = await cluster.wait_for_leader()
    assert leader.key.id == longest
    await leader.append([b"goes on"])


@on_cluster(invariants=FORGED, voters=3, observers=1, started=())
async def test_an_observer_far_behind_follows(cluster: Cluster) -> None:
    store_epochs(cluster, 1, 2, 3, epoch=LAST_ANSWERED_EPOCH - 10)
    for machine in cluster.machines.values():
        await machine.start()
    leader = await cluster.wait_for_leader()
    await leader.append([b"value"])
    await cluster.wait_until_alike()


@on_cluster(invariants=FORGED, started=())
async def test_one_voter_in_the_last_epoch_takes_nobody_along(cluster: Cluster) -> None:
    """Its quorum-state is wrong; the others must not follow its answers to where no election can be held."""
    store_epochs(cluster, 1, epoch=MAX_EPOCH)
    for machine in cluster.machines.values():
        await machine.start()
    leader = await cluster.wait_for_leader()
    assert leader.view.epoch < 100
    await leader.append([b"goes on"])
    assert {id: node.view.epoch == MAX_EPOCH for id, node in cluster.nodes.items()} == {1: True, 2: False, 3: False}


@on_cluster(invariants=FORGED, voters=1, started=())
async def test_a_node_in_the_last_epoch_runs_and_says_so(cluster: Cluster) -> None:
    store_epochs(cluster, 1, epoch=MAX_EPOCH)
    await cluster.machines[1].start()
    with pytest.raises(trio.TooSlowError):
        await cluster.wait_for_leader(within_s=30)
    assert cluster.nodes[1].view.epoch == MAX_EPOCH
