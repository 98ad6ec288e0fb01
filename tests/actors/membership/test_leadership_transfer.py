"""Transferring the leadership to a chosen voter: no append is lost, and no other election comes between."""

from __future__ import annotations

import itertools

import pytest
import trio
import trio.testing

from kraft_trio.actors.membership.transfer_asker import TransferAsker
from kraft_trio.errors import NetworkError, OutcomeUnknownError, RefusedError
from kraft_trio.messages import QuorumView
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Leader
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.wire.api import TRANSFER_LEADERSHIP
from kraft_trio.wire.apis.transfer_leadership import TransferLeadershipRequest, TransferLeadershipResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import RawClient


@pytest.mark.parametrize("asked", ["leader", "follower", "target", "observer"])
@on_cluster(observers=1)
async def test_any_node_transfers_the_leadership(cluster: Cluster, asked: str) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, target = cluster.others(leader)
    node = {"leader": leader, "follower": follower, "target": target, "observer": cluster.nodes[4]}[asked]
    epoch = leader.view.epoch + 1
    with trio.fail_after(0.5):
        assert await node.transfer_leadership(target.key.id) == epoch
    assert isinstance(target.view.role, Leader)
    assert target.view.epoch == epoch
    assert await node.transfer_leadership(target.key.id) == epoch, "it leads already"


async def write(node: Node, name: str, acknowledged: list[bytes]) -> None:
    for number in itertools.count():
        value = f"{name}-{number}".encode()
        await node.append([value])
        acknowledged.append(value)


@on_cluster(settings={"message.max.bytes": "1200000"})
async def test_a_slow_voter_wins_while_clients_write(cluster: Cluster) -> None:
    """Its log is always the shortest: without a pause of the appends it would lose every election."""
    leader = await cluster.wait_for_leader()
    _, target = cluster.others(leader)
    machine = cluster.machines[target.key.id]
    cluster.network.set_default_link(latency=Latency.constant(0.001))
    cluster.network.set_link(machine.host, cluster.machines[leader.key.id].host, latency=Latency.constant(0.05))
    acknowledged: list[bytes] = []
    async with trio.open_nursery() as nursery:
        for node in cluster.nodes.values():
            nursery.start_soon(write, node, str(node.key.id), acknowledged)
        await trio.sleep(1)
        epoch = leader.view.epoch
        assert await leader.transfer_leadership(target.key.id, timeout_ms=5000) == epoch + 1
        before = len(acknowledged)
        await cluster.wait_until(lambda: len(acknowledged) > before + 10)
        nursery.cancel_scope.cancel()
    await cluster.wait_until_alike()
    values = values_in(target)
    assert len(set(values)) == len(values)
    assert set(acknowledged) <= set(values)


@on_cluster(observers=1)
async def test_only_a_voter_can_be_chosen(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    for node_id in (4, 9):
        with pytest.raises(RefusedError, match=f"node {node_id} is no voter; the voters are 1, 2, 3"):
            await leader.transfer_leadership(node_id)
    assert isinstance(leader.view.role, Leader)


@on_cluster()
async def test_a_voter_that_lags_does_not_get_the_leadership(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    epoch = leader.view.epoch
    _, target = cluster.others(leader)
    cluster.machines[target.key.id].kill()
    await leader.append([b"value"])
    with pytest.raises(RefusedError, match="out of time while waiting"):
        await leader.transfer_leadership(target.key.id, timeout_ms=5000)
    with trio.fail_after(0.5):
        await leader.append([b"another"])
    assert leader.view.epoch == epoch


@on_cluster()
async def test_appends_go_on_if_the_voter_vanishes_at_the_last_moment(cluster: Cluster) -> None:
    """It has just caught up, so the appends are held; it never gets what is in the log."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    epoch = leader.view.epoch
    _, target = cluster.others(leader)
    cluster.machines[target.key.id].pause()
    await leader.append([b"before"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused, leader, target)
        await trio.testing.wait_all_tasks_blocked()
        begun = trio.current_time()
        assert await leader.append([b"held"])
        assert trio.current_time() - begun > 0.9, "it was held for an election timeout"
    assert leader.view.epoch == epoch
    assert values_in(leader) == [b"before", b"held"]


async def refused(leader: Node, target: Node) -> None:
    with pytest.raises(RefusedError, match="out of time while waiting"):
        await leader.transfer_leadership(target.key.id, timeout_ms=4000)


@on_cluster()
async def test_held_appends_are_sent_to_the_next_leader(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    _, target = cluster.others(leader)
    leading = leader.election.leading
    assert leading is not None
    leading.hold_appends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.append, [b"value"])
        await trio.testing.wait_all_tasks_blocked()
        assert values_in(leader) == []
        await leader.resign()
    await cluster.wait_until_alike()
    assert values_in(target) == [b"value"]


@on_cluster()
async def test_a_leader_that_resigns_lets_another_lead(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    with trio.fail_after(0.1):
        await leader.resign()
    assert not isinstance(leader.view.role, Leader)
    with trio.fail_after(0.5):
        await cluster.wait_for_leader(other_than=leader)
    follower = next(node for node in cluster.nodes.values() if not isinstance(node.view.role, Leader))
    epoch = follower.view.epoch
    await follower.resign()
    await trio.sleep(10)
    assert follower.view.epoch == epoch, "who does not lead has nothing to give up"


@pytest.mark.parametrize("is_lost", [False, True])
@on_cluster()
async def test_a_refusal_after_a_leader_has_resigned_is_no_refusal(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """Also if its answer was lost."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    other, target = cluster.others(leader)
    ask = TransferAsker._ask
    answers = [ErrorCode.none, ErrorCode.request_timed_out]

    async def another_wins(
        self: TransferAsker, view: QuorumView, _voter_id: int, deadline: float
    ) -> TransferLeadershipResponse:
        error = answers.pop(0)
        if error == ErrorCode.none:
            await ask(self, view, other.key.id, deadline)
            if is_lost:
                raise NetworkError("no answer")
        return TransferLeadershipResponse(error, "it does not catch up")

    monkeypatch.setattr(TransferAsker, "_ask", another_wins)
    with pytest.raises(OutcomeUnknownError, match="it does not catch up; but a leader may have resigned"):
        await leader.transfer_leadership(target.key.id)
    assert isinstance(other.view.role, Leader)


@on_cluster()
async def test_a_request_of_another_cluster_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        answer = await client.ask(TRANSFER_LEADERSHIP, TransferLeadershipRequest("another", 2, 1000))
    assert answer.error == ErrorCode.inconsistent_cluster_id
    assert isinstance(leader.view.role, Leader)
