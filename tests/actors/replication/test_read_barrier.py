"""A read barrier: what a node has after it includes every append that was acknowledged before it, anywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
import trio.testing

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication import follower_replication
from kraft_trio.errors import NodeClosedError
from kraft_trio.node import Node
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.simulated_network import FrameFate, frames_of
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.wire.api import FETCH, READ_INDEX
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchRequest
from kraft_trio.wire.apis.read_index import ReadIndexRequest, ReadIndexResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster, run_on_cluster
from tests.support.raw_client import CLUSTER_ID, FORGED, RawClient
from tests.support.timing import set_timing


class Read:
    """A read that waits for its barrier."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.read_index: int | None = None

    async def run(self) -> None:
        self.read_index = await self.node.read_barrier()


def held_machines(machines: dict[int, RememberedValues]) -> Callable[[int], RememberedValues]:
    return lambda node_id: machines.setdefault(node_id, RememberedValues())


def test_every_node_has_what_was_acknowledged_before() -> None:
    machines: dict[int, RememberedValues] = {}

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        for number, node in enumerate(cluster.nodes.values()):
            value = b"%d" % number
            [offset] = await leader.append([value])
            assert await node.read_barrier() > offset
            assert value in machines[node.key.id].values

    run_on_cluster(test, Setup(voters=3, observers=1, state_machine=held_machines(machines)))


@on_cluster()
async def test_it_works_without_an_application_and_writes_nothing(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    [offset] = await leader.append([b"value"])
    await cluster.wait_until_alike()
    for node in cluster.nodes.values():
        read_index = await node.read_barrier()
        assert read_index == offset + 1
        assert node.high_watermark is not None
        assert node.high_watermark >= read_index
    assert leader.log.end_offset == offset + 1


@on_cluster(voters=1)
async def test_a_sole_voter_asks_nobody(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    [offset] = await node.append([b"value"])
    began_s = cluster.now_s
    assert await node.read_barrier() == offset + 1
    assert cluster.now_s == began_s


@on_cluster()
async def test_a_leader_asks_its_followers_at_once(cluster: Cluster) -> None:
    """The fetches that are parked are answered: one round trip, not a fetch timeout."""
    leader = await cluster.wait_for_leader()
    await leader.append([b"value"])
    await cluster.wait_until_alike()
    set_timing(cluster, latency_s=0.01)
    await leader.read_barrier()
    await trio.sleep(0.1)
    began_s = cluster.now_s
    await leader.read_barrier()
    assert cluster.now_s - began_s == pytest.approx(0.02)


@on_cluster()
async def test_reads_that_begin_together_share_one_round(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, *_ = cluster.others(leader)
    host = cluster.machines[follower.key.id].host
    await trio.sleep(1)
    set_timing(cluster, latency_s=0.01)
    fetches_before, indexes_before = (cluster.network.requests_sent[host, api.key] for api in (FETCH, READ_INDEX))
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(leader.read_barrier)
            nursery.start_soon(follower.read_barrier)
    # One round for the leader's own reads; one for the first of the follower's, and one for all others.
    assert cluster.network.requests_sent[host, READ_INDEX.key] - indexes_before <= 2
    assert cluster.network.requests_sent[host, FETCH.key] - fetches_before <= 4


async def cannot_tell_until_it_hears_of_its_successor(cluster: Cluster, old: Node) -> None:
    """A read at a leader that is cut off continues, and then asks the successor."""
    read = Read(old)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read.run)
        new = await cluster.wait_for_leader(other_than=old)
        [offset] = await new.append([b"by the successor"])
        assert read.read_index is None
        cluster.heal()
    assert read.read_index is not None
    assert read.read_index > offset


@on_cluster()
async def test_a_leader_without_followers_cannot_tell(cluster: Cluster) -> None:
    """It would miss what its successor commits.  Its read continues, and asks that successor."""
    await parse_step("elect 1").take(cluster)
    old = cluster.nodes[1]
    cluster.partition([1], [2, 3], silent=True)
    await cannot_tell_until_it_hears_of_its_successor(cluster, old)


@attrs.frozen
class Voter:
    """Fetches at the leader in the name of a voter that has died."""

    client: RawClient
    key: ReplicaKey
    epoch: int
    end: int

    async def fetch(self, read_round: int, *, epoch: int | None = None) -> FetchPartitionResponse:
        return await self.client.fetch(
            self.end,
            epoch=self.epoch if epoch is None else epoch,
            last_fetched_epoch=self.epoch,
            replica=self.key,
            read_round=read_round,
        )


def on_a_leader_with_a_voter(
    test: Callable[[Cluster, Node, Voter], Awaitable[None]],
) -> Callable[[], None]:
    """Run a test against a leader of two voters, in whose other voter's place the test fetches."""

    @on_cluster(voters=2, invariants=FORGED)
    async def run(cluster: Cluster) -> None:
        await parse_step("elect 1").take(cluster)
        leader = cluster.nodes[1]
        await leader.append([b"value"])
        await cluster.wait_until_alike()
        key = cluster.key_of(2)
        cluster.machines[2].kill()
        async with RawClient.connected(cluster, 1) as client:
            await test(cluster, leader, Voter(client, key, leader.view.epoch, leader.log.end_offset))

    return run


@on_a_leader_with_a_voter
async def test_a_fetch_of_before_the_read_does_not_count(cluster: Cluster, leader: Node, voter: Voter) -> None:
    """Its sender may have elected another leader while the Fetch was on its way."""
    await voter.fetch(0)
    read = Read(leader)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read.run)
        await trio.testing.wait_all_tasks_blocked()
        response = await voter.fetch(0)
        assert response.read_round == 1
        assert read.read_index is None
        await voter.fetch(response.read_round)
    assert read.read_index == leader.log.end_offset


@on_a_leader_with_a_voter
async def test_a_later_read_needs_a_later_round(cluster: Cluster, leader: Node, voter: Voter) -> None:
    first, second = Read(leader), Read(leader)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.run)
        await trio.testing.wait_all_tasks_blocked()
        given = (await voter.fetch(0)).read_round
        nursery.start_soon(second.run)
        await trio.testing.wait_all_tasks_blocked()
        later = await voter.fetch(given)
        await trio.testing.wait_all_tasks_blocked()
        assert first.read_index is not None
        assert second.read_index is None
        await voter.fetch(later.read_round)
    assert second.read_index is not None
    assert (await voter.fetch(later.read_round)).read_round == 0, "no read waits any longer"


@on_a_leader_with_a_voter
async def test_a_fetch_that_names_no_epoch_does_not_count(cluster: Cluster, leader: Node, voter: Voter) -> None:
    read = Read(leader)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read.run)
        await trio.testing.wait_all_tasks_blocked()
        given = (await voter.fetch(0)).read_round
        await voter.fetch(given, epoch=-1)
        await trio.testing.wait_all_tasks_blocked()
        assert read.read_index is None
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_voters_that_return_no_round_are_asked(kraft_version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's voters do not know our fields.  Their response to BeginQuorumEpoch was sent after the read began."""
    known = follower_replication.replica_fetch_request

    def without_round(context: EpochContext, *, max_wait_ms: int, read_round: int) -> FetchRequest:
        return known(context, max_wait_ms=max_wait_ms)

    monkeypatch.setattr(follower_replication, "replica_fetch_request", without_round)

    async def test(cluster: Cluster) -> None:
        await parse_step("elect 1").take(cluster)
        set_timing(cluster, latency_s=0.01)
        old = cluster.nodes[1]
        fetches_before = cluster.network.requests_sent["node-2", FETCH.key]
        began_s = cluster.now_s
        for _ in range(3):
            [offset] = await old.append([b"value"])
            assert await old.read_barrier() == offset + 1
        assert cluster.now_s - began_s < 0.5
        assert cluster.network.requests_sent["node-2", FETCH.key] - fetches_before < 20, "it is not kept busy"
        cluster.partition([1], [2, 3], silent=True)
        await cannot_tell_until_it_hears_of_its_successor(cluster, old)

    run_on_cluster(test, Setup(kraft_version=kraft_version))


@on_cluster()
async def test_a_voter_whose_response_was_lost_is_asked(cluster: Cluster) -> None:
    """Otherwise the read would wait until the leader answers the voter's next Fetch."""
    await parse_step("elect 1").take(cluster)
    set_timing(cluster, latency_s=0.01)
    cluster.machines[3].kill()
    await cluster.nodes[1].append([b"value"])
    await trio.sleep(0.1)
    cluster.network.plan(frames_of(FETCH, is_request=False), FrameFate.RESET)
    began_s = cluster.now_s
    await cluster.nodes[1].read_barrier()
    assert cluster.now_s - began_s < 0.4


@on_cluster()
async def test_a_new_leader_waits_for_its_first_commit(cluster: Cluster) -> None:
    """Until then it may not know that what an earlier leader acknowledged is committed."""
    await parse_step("elect 1").take(cluster)
    for machine in cluster.machines.values():
        machine.disk.sync_latency = lambda: 0.5
    cluster.machines[1].kill()
    await cluster.wait_until(lambda: cluster.leader() is not None)
    leader = cluster.leader()
    assert leader is not None
    assert not cluster.replica_of(leader.key).has_committed_in_epoch
    read_index = await leader.read_barrier()
    assert cluster.replica_of(leader.key).has_committed_in_epoch
    assert read_index == leader.high_watermark


def test_it_waits_until_this_node_has_applied_the_records() -> None:
    may_go_on = trio.Event()

    class HeldBack(RememberedValues):
        async def on_commit(self, records) -> None:  # type: ignore[no-untyped-def]
            await may_go_on.wait()
            await super().on_commit(records)

    machine = HeldBack()

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        await node.append([b"value"])
        read = Read(node)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read.run)
            await trio.sleep(60)
            assert read.read_index is None
            may_go_on.set()
        assert machine.values == [b"value"]

    run_on_cluster(test, Setup(voters=1, state_machine=lambda _: machine))


@on_cluster()
async def test_a_node_that_stops_ends_its_reads(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    other, *_ = cluster.others(leader)
    await cluster.machines[other.key.id].stop()
    with pytest.raises(NodeClosedError):
        await other.read_barrier()


@on_cluster()
async def test_a_read_that_was_cancelled_leaves_the_others_alone(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    cluster.network.set_default_link(latency=Latency.constant(0.1))
    follower, *_ = cluster.others(leader)
    for node in (leader, follower):
        read = Read(node)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read.run)
            with trio.move_on_after(0.05) as scope:
                await node.read_barrier()
            assert scope.cancelled_caught
        assert read.read_index is not None


@on_cluster()
async def test_only_the_leader_tells_clients_of_its_cluster(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, *_ = cluster.others(leader)

    async def ask(node: Node, cluster_id: str) -> ReadIndexResponse:
        async with RawClient.connected(cluster, node.key.id) as client:
            return await client.ask(READ_INDEX, ReadIndexRequest(cluster_id))

    assert (await ask(leader, "another")).error == ErrorCode.inconsistent_cluster_id
    refused = await ask(follower, CLUSTER_ID)
    assert refused.error == ErrorCode.not_leader_or_follower
    assert (refused.leader_id, refused.leader_epoch) == (leader.key.id, leader.view.epoch)
    assert (await ask(leader, CLUSTER_ID)).read_index == leader.high_watermark
