"""A follower or an observer that is too far behind: the leader's snapshot, then its log."""

from __future__ import annotations

import itertools
from typing import Literal

import pytest
import trio

from kraft_trio.actors.snapshots.pieces_ahead import PIECES_AHEAD
from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.snapshot_ids import check_offered_snapshot
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.network.link_faults import FrameFate, frames_of
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.wire.api import FETCH_SNAPSHOT
from tests.support.on_cluster import run_on_cluster
from tests.support.trimming import (
    SETTINGS,
    Requests,
    append,
    content_of,
    on_trimming_cluster,
    trimmed,
    until_alike,
    values,
)
from tests.support.voter_change_requests import beside, remove_voter


def pieces_asked_for(cluster: Cluster, node_id: int) -> int:
    return cluster.network.requests_sent[cluster.machines[node_id].host, FETCH_SNAPSHOT.key]


@on_trimming_cluster(kraft_version=0)
async def test_static_voters_stay_those_of_the_configuration(cluster: Cluster) -> None:
    """At kraft.version 0 a snapshot names none."""
    leader = await cluster.wait_for_leader()
    follower = cluster.others(leader)[0].key.id
    cluster.machines[follower].kill()
    await trimmed(leader)
    node = await cluster.machines[follower].start()
    assert node is not None
    await until_alike(cluster)
    assert node.log.log_start_offset > 0
    assert (node.view.kraft_version, node.view.voters.ids) == (0, (1, 2, 3))


@on_trimming_cluster()
async def test_a_lagging_follower_gets_the_snapshot_then_the_log(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower = cluster.others(leader)[0].key.id
    cluster.machines[follower].kill()
    snapshot_id = await trimmed(leader)
    await append(leader, values(1000, 5))
    node = await cluster.machines[follower].start()
    assert node is not None
    await until_alike(cluster)
    assert node.log.log_start_offset == snapshot_id.offset
    assert node.log.snapshots.ids == (snapshot_id,)
    assert pieces_asked_for(cluster, follower) > 5
    assert content_of(cluster, node, snapshot_id) == content_of(cluster, leader, snapshot_id) is not None


@on_trimming_cluster(observers=1, started=(1, 2, 3))
async def test_a_blank_observer_gets_the_snapshot_and_then_the_log(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    snapshot_id = await trimmed(leader)
    observer = await cluster.machines[4].start()
    assert observer is not None
    await until_alike(cluster)
    assert observer.log.log_start_offset == snapshot_id.offset
    assert observer.view.voters.ids == (1, 2, 3)
    assert observer.view.kraft_version == 1
    # And it is found again at the next start.
    await cluster.machines[4].stop()
    observer = await cluster.machines[4].start()
    assert observer is not None
    await until_alike(cluster)
    assert observer.log.log_start_offset == snapshot_id.offset


@on_trimming_cluster(observers=1, started=(1, 2, 3))
async def test_a_lost_connection_costs_no_piece(cluster: Cluster) -> None:
    """Each position is asked for until it has come, and none again but those whose answers were lost with it."""
    leader = await cluster.wait_for_leader()
    snapshot_id = await trimmed(leader)
    requests = Requests(cluster, 4)
    to_observer = frames_of(FETCH_SNAPSHOT, is_request=False, target=cluster.machines[4].host)
    lost = cluster.network.plan(lambda message: to_observer(message) and len(requests.seen) % 5 == 0, FrameFate.CUT, 3)
    await cluster.machines[4].start()
    await until_alike(cluster)
    assert lost.times == 0
    size = leader.log.snapshots.file(snapshot_id).size_in_bytes
    distinct = sorted(set(requests.positions))
    assert distinct == [(snapshot_id, position) for position in range(0, size, 500)]
    again = [later for earlier, later in itertools.pairwise(requests.positions) if later <= earlier]
    assert 1 <= len(again) <= 3
    assert min(again)[1] >= 500, "it went on where it was, each time"
    assert len(requests.positions) <= len(distinct) + 3 * PIECES_AHEAD


@on_trimming_cluster(observers=1, started=(1, 2, 3))
async def test_the_next_leader_goes_on_where_the_last_one_stopped(cluster: Cluster) -> None:
    """Every replica's snapshot of one id is the same, so that nothing is fetched twice."""
    leader = await cluster.wait_for_leader()
    await append(leader, *(values(number, 10) for number in range(0, 100, 10)))
    await until_alike(cluster)
    ids = {await node.take_snapshot() for node in cluster.nodes.values()}
    (snapshot_id,) = ids
    assert snapshot_id is not None
    requests = Requests(cluster, 4)
    await cluster.machines[4].start()
    await requests.until(4)
    cluster.machines[leader.key.id].kill()
    await cluster.wait_for_leader(other_than=leader)
    await until_alike(cluster)
    size = cluster.others(leader)[0].log.snapshots.file(snapshot_id).size_in_bytes
    positions = [position for _, position in requests.positions]
    again = [later for earlier, later in itertools.pairwise(positions) if later <= earlier]
    assert again
    assert min(again) >= 500, "what had come was not fetched again"
    assert sorted(set(positions)) == list(range(0, size, 500))
    assert {request.current_leader_epoch for request in requests.seen} == {1, 2}


@on_trimming_cluster(observers=1, started=(1, 2, 3), settings={"controller.quorum.fetch.snapshot.max.bytes": "100"})
async def test_a_newer_snapshot_takes_the_place_of_the_one_on_its_way(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    first = await trimmed(leader)
    requests = Requests(cluster, 4)
    observer = await cluster.machines[4].start()
    assert observer is not None
    await requests.until(4)
    second = await trimmed(leader, 1000)
    assert leader.log.snapshots.ids == (second,)
    await until_alike(cluster)
    assert observer.log.snapshots.ids == (second,)
    asked = requests.positions
    begins = asked.index((second, 0))
    assert {snapshot_id for snapshot_id, _ in asked[:begins]} == {first}
    assert {snapshot_id for snapshot_id, _ in asked[begins:]} == {second}


@on_trimming_cluster()
async def test_nothing_of_the_replaced_log_stays_in_force(cluster: Cluster) -> None:
    """Scenario S11: the log that gives way has an uncommitted VotersRecord."""
    leader = await cluster.wait_for_leader()
    await leader.append([b"value"])
    await cluster.wait_until_alike()
    others = tuple(node.key.id for node in cluster.others(leader))
    cluster.partition((leader.key.id,), others)
    async with trio.open_nursery() as nursery:
        asked = beside(nursery, remove_voter, cluster, leader, cluster.key_of(others[0]))
        await cluster.wait_until(lambda: len(leader.view.voters) == 2)
        new = await cluster.wait_for_leader(other_than=leader)
        snapshot_id = await trimmed(new)
        cluster.heal()
        await until_alike(cluster)
        await asked.answered.wait()
    assert leader.log.log_start_offset > 0, "it was too far behind"
    assert leader.view.voters == new.view.voters == cluster.initial_voters
    assert leader.log.voters.uncommitted(0) == (snapshot_id.offset - 1,), "the snapshot's set is all there is"
    assert leader.view.kraft_version == 1


@on_trimming_cluster()
async def test_putting_a_snapshot_in_place_keeps_the_contact(cluster: Cluster) -> None:
    """However slow the device is, the leader does not take its only follower for lost."""
    leader = await cluster.wait_for_leader()
    slow, other = (node.key.id for node in cluster.others(leader))
    cluster.machines[slow].kill()
    snapshot_id = await trimmed(leader)
    node = await cluster.machines[slow].start()
    assert node is not None
    requests = Requests(cluster, slow)
    await requests.until(1)
    cluster.machines[slow].disk.sync_latency = lambda: 5 * leader.config.fetch_timeout_ms / 1000
    cluster.machines[other].kill()
    await cluster.wait_until(lambda: node.log.log_start_offset == snapshot_id.offset)
    assert trio.current_time() > 20
    assert isinstance(leader.view.role, Leader)
    assert (leader.view.epoch, node.view.epoch) == (1, 1)
    cluster.machines[slow].end_faults()
    await leader.append([b"value"])


@pytest.mark.parametrize("lose", ["nothing", "some", "all"])
def test_a_download_is_interrupted_at_every_piece(lose: Literal["nothing", "some", "all"]) -> None:
    """Scenario S16: a replica that is killed or loses power after any piece starts over and gets the whole."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        snapshot_id = await trimmed(leader)
        size = leader.log.snapshots.file(snapshot_id).size_in_bytes
        machine = cluster.machines[4]
        pieces = len(range(0, size, 500))
        for count in range(1, pieces + 1):
            requests = Requests(cluster, 4)
            node = await machine.start()
            assert node is not None
            assert not any(".part" in name for name in machine.disk.peek_names(node.log.directory))
            await requests.until(count)
            asked = [(snapshot_id, 500 * piece) for piece in range(len(requests.positions))]
            assert requests.positions == asked
            assert count <= len(asked) < count + PIECES_AHEAD
            if lose == "nothing":
                machine.kill()
            else:
                machine.crash(lose)
        await machine.start()
        await until_alike(cluster)
        assert cluster.nodes[4].log.snapshots.ids == (snapshot_id,)

    settings = {**SETTINGS, "kraft.metrics.interval.ms": "0"}
    run_on_cluster(
        test, Setup(observers=1, started=(1, 2, 3), settings=settings, state_machine=lambda _: RememberedValues())
    )


def test_an_offer_that_must_be_refused() -> None:
    """The rule itself; a leader that keeps to the protocol never makes one."""
    check_offered_snapshot(OffsetAndEpoch(11, 3), epoch=3, high_watermark=10)
    check_offered_snapshot(OffsetAndEpoch(1, 0), epoch=3, high_watermark=None)
    for offset, epoch, high_watermark, reason in (
        (10, 3, 10, "snapshot .*: the high watermark is 10, expected one that ends above that"),
        (11, 4, 10, "named in epoch 3: expected an offset above 0, and an epoch up to that"),
        (0, 0, None, "expected an offset above 0"),
        (5, -1, None, "expected an offset above 0, and an epoch up to that"),
    ):
        with pytest.raises(ProtocolError, match=reason):
            check_offered_snapshot(OffsetAndEpoch(offset, epoch), epoch=3, high_watermark=high_watermark)
