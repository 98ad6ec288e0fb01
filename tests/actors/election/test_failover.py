"""Leaders that go away: who follows them, and what becomes of what they had appended."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
import trio.testing

from kraft_trio.errors import OutcomeUnknownError
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Follower, Leader, Resigned
from kraft_trio.simulation import Cluster
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.logs import log_bytes, values_in
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import RawClient, batch_of


async def append_unheard(node: Node, value: bytes) -> None:
    """Append without ever learning what became of it."""
    with suppress(OutcomeUnknownError):
        await node.append([value])


@on_cluster()
async def test_a_new_leader_takes_over_and_the_old_one_follows(cluster: Cluster) -> None:
    """The old leader's unacknowledged tail vanishes; in the end all logs are the same, byte for byte."""
    old = await cluster.wait_for_leader()
    old_id, old_epoch = old.key.id, old.view.epoch
    others = set(cluster.voter_ids) - {old_id}
    (kept,) = await old.append([b"kept"])
    cluster.partition({old_id}, others)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(append_unheard, old, b"lost")
        await cluster.wait_until(lambda: old.log.synced_end_offset == old.log.end_offset == kept + 2)
        cluster.machines[old_id].crash("all")
    new = await cluster.wait_for_leader()
    assert new.view.epoch > old_epoch
    await new.append([b"after"])

    cluster.heal()
    restarted = await cluster.machines[old_id].start()
    assert isinstance(restarted.view.role, Resigned)
    assert restarted.view.epoch == old_epoch
    assert values_in(restarted) == [b"kept", b"lost"]
    await cluster.wait_until_alike()
    assert isinstance(restarted.view.role, Follower)
    assert values_in(restarted) == [b"kept", b"after"]
    assert len({log_bytes(node) for node in cluster.nodes.values()}) == 1


@on_cluster(voters=1)
async def test_a_restarted_leader_never_leads_its_old_epoch_again(cluster: Cluster) -> None:
    """It may have lost records of that epoch which others hold: it can lead again, but only in a newer one."""
    epochs = []
    for _ in range(3):
        node = await cluster.wait_for_leader()
        epochs.append(node.view.epoch)
        cluster.machines[1].crash("all")
        await cluster.machines[1].start()
    assert epochs == sorted(set(epochs))


@on_cluster()
async def test_what_a_cut_off_leader_appends_is_never_acknowledged(cluster: Cluster) -> None:
    """It is on its disk, even synced there, but on no majority: the producer hears that its fate is unknown."""
    leader = await cluster.wait_for_leader()
    cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id})
    async with RawClient.connected(cluster, leader.key.id) as client:
        answer = await client.produce(batch_of(b"lost"))
    assert answer.error == ErrorCode.request_timed_out
    assert leader.log.synced_end_offset == leader.log.end_offset
    assert leader.log.high_watermark == leader.log.end_offset - 1

    new = await cluster.wait_for_leader()
    await new.append([b"instead"])
    cluster.heal()
    await cluster.wait_until_alike()
    assert [values_in(node) for node in cluster.nodes.values()] == [[b"instead"]] * 3


@on_cluster()
async def test_a_replicated_append_may_commit_under_the_next_leader(cluster: Cluster) -> None:
    """It was not acknowledged, but the only node that can win holds it: it commits with the new epoch's first batch."""
    old = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    holder, other = cluster.others(old)
    before = old.log.end_offset
    cluster.partition({old.key.id, holder.key.id}, {other.key.id})
    cluster.machines[holder.key.id].disk.sync_latency = lambda: 0.2
    async with trio.open_nursery() as nursery:
        nursery.start_soon(append_unheard, old, b"carried over")
        await cluster.wait_until(lambda: holder.log.end_offset == old.log.end_offset > before)
        cluster.machines[old.key.id].kill()
    cluster.heal()
    assert (await cluster.wait_for_leader()) is holder
    await cluster.wait_until_alike(holder.key.id, other.key.id)
    assert values_in(other) == [b"carried over"]


@on_cluster()
async def test_every_acknowledged_record_survives_the_crash_of_all(cluster: Cluster) -> None:
    """Power goes everywhere at once, with appends on their way: what was answered had been synced on a majority."""
    for machine in cluster.machines.values():
        machine.disk.sync_latency = lambda: 0.004
    leader = await cluster.wait_for_leader()
    acknowledged: list[tuple[int, bytes]] = []

    async def write() -> None:
        for number in range(10_000):
            (offset,) = await leader.append([b"%d" % number])
            acknowledged.append((offset, b"%d" % number))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await trio.sleep(1.0013)
        nursery.cancel_scope.cancel()
    for node_id in cluster.voter_ids:
        cluster.machines[node_id].crash("all")
    for node_id in cluster.voter_ids:
        await cluster.machines[node_id].start()
    leader = await cluster.wait_for_leader()
    await leader.append([b"on"])
    await cluster.wait_until_alike()
    assert len(acknowledged) > 50
    for node in cluster.nodes.values():
        in_log = values_in(node)
        assert in_log[: len(acknowledged)] == [value for _, value in acknowledged]
        assert in_log[len(acknowledged) :] in ([b"on"], [b"%d" % len(acknowledged), b"on"])


@on_cluster()
async def test_the_most_complete_log_wins(cluster: Cluster) -> None:
    """A voter that lacks a committed record cannot be elected, even where it is the first to ask."""
    leader = await cluster.wait_for_leader()
    behind, complete = cluster.others(leader)
    cluster.partition({leader.key.id, complete.key.id}, {behind.key.id})
    await leader.append([b"committed"])
    await cluster.wait_until(lambda: complete.log.end_offset == leader.log.end_offset)
    await trio.sleep(3)
    assert not isinstance(behind.view.role, Follower), "it has long been asking"
    cluster.machines[leader.key.id].kill()
    cluster.heal()
    assert (await cluster.wait_for_leader()) is complete


@pytest.mark.parametrize("silent", [False, True], ids=["connections break", "nothing arrives"])
@on_cluster(voters=5)
async def test_one_of_five_sees_both_halves(cluster: Cluster, silent: bool) -> None:
    """The leader keeps its half and the bridge: the other half can neither lead nor disturb (scenario S3)."""
    leader = await cluster.wait_for_leader()
    one, bridge, two, three = (node.key.id for node in cluster.others(leader))
    epoch = leader.view.epoch
    left, right = [[cluster.machines[id].host for id in ids] for ids in ((leader.key.id, one), (two, three))]
    cluster.network.bridge(cluster.machines[bridge].host, left, right, silent=silent)
    await trio.sleep(30)
    await leader.append([b"goes on"])
    assert isinstance(leader.view.role, Leader)
    assert leader.view.epoch == epoch
