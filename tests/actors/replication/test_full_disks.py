"""Disks without room: a leader hands over first, the node ends with DiskFullError, and is back once there is room."""

from __future__ import annotations

import errno
from contextlib import suppress

import trio

from kraft_trio.errors import DiskFullError, OutcomeUnknownError
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.steps import disk
from kraft_trio.storage.disk.disk import join
from kraft_trio.storage.disk.disk_reserve import DISK_RESERVE
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster


@on_cluster()
async def test_a_leader_hands_over_before_it_ends(cluster: Cluster) -> None:
    """Nobody has to wait for a fetch timeout, and what was acknowledged is everywhere."""
    leader = await cluster.wait_for_leader()
    await leader.append([b"kept"])
    await cluster.wait_until_alike()
    full = cluster.machines[leader.key.id]
    await disk.full_disk(full.id, 20).take(cluster)
    began_at_s = trio.current_time()
    await cluster.others(leader)[0].append([b"wherever it goes"])
    assert trio.current_time() - began_at_s < leader.config.fetch_timeout_ms / 1000 / 2
    await full.wait_until_ended()
    assert isinstance(full.failure, DiskFullError)
    assert "bytes cannot be appended" in str(full.failure)
    await cluster.wait_for_leader(other_than=leader)

    assert await full.start() is None, "there is no room for its reserve"
    assert isinstance(full.failure, DiskFullError)
    assert "cannot reserve" in str(full.failure)

    await disk.free_disk(full.id).take(cluster)
    node = await full.start()
    assert node is not None
    await cluster.wait_until_alike()
    assert values_in(node) == [b"kept", b"wherever it goes"]
    assert DISK_RESERVE in full.disk.peek_names(node.config.metadata_log_dir)


@on_cluster()
async def test_a_follower_ends_and_counts_for_nothing_it_has_not(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, other = cluster.others(leader)
    full = cluster.machines[follower.key.id]
    await disk.full_disk(full.id).take(cluster)
    await leader.append([b"without it"])
    await full.wait_until_ended()
    assert isinstance(full.failure, DiskFullError)
    assert await cluster.wait_for_leader() is leader
    await disk.free_disk(full.id).take(cluster)
    await full.start()
    await cluster.wait_until_alike()
    assert values_in(cluster.nodes[full.id]) == values_in(other) == [b"without it"]


@on_cluster()
async def test_the_reserve_lets_a_resigning_leader_vote(cluster: Cluster) -> None:
    """One voter does not hear of the resignation, so that the leader is there still when the other one asks it."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    full, (successor, deaf) = cluster.machines[leader.key.id], cluster.others(leader)
    cluster.network.isolate(cluster.machines[deaf.key.id].host)
    await disk.full_disk(full.id).take(cluster)
    replica = full.replica
    assert replica is not None
    with suppress(OutcomeUnknownError):
        await leader.append([b"does not fit"])
    await full.wait_until_ended()
    stored = replica.durable_election_state()
    assert stored is not None
    assert stored.voted_key == successor.key or stored.leader_id == successor.key.id
    cluster.heal()
    await disk.free_disk(full.id).take(cluster)
    await full.start()
    await cluster.wait_until_alike()


@on_cluster()
async def test_a_voter_change_that_does_not_fit_ends_with_the_leader(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    full = cluster.machines[leader.key.id]
    await disk.full_disk(full.id).take(cluster)
    request = cluster.administrator.remove_voter(cluster.others(leader)[0].key.id, at=full.id, within_s=5)
    await request.ended.wait()
    await full.wait_until_ended()
    assert isinstance(full.failure, DiskFullError)
    assert all(len(node.log.voters.voters) == 3 for node in cluster.nodes.values())
    await cluster.wait_for_leader(other_than=leader)


@on_cluster(voters=1, started=())
async def test_a_leader_whose_first_batch_does_not_fit_does_not_lead(cluster: Cluster) -> None:
    full = cluster.machines[1]
    full.excuse("there is no room for the first batch")
    full.disk.fail("append", name=".log", code=errno.ENOSPC)
    await full.start()
    await full.wait_until_ended()
    assert isinstance(full.failure, DiskFullError)
    node = await full.start()
    assert node is not None
    await cluster.wait_for_leader()


@on_cluster()
async def test_the_disk_is_not_full_of_what_the_reserve_held(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    full = cluster.machines[leader.key.id]
    directory = leader.config.metadata_log_dir
    await disk.full_disk(full.id).take(cluster)
    with suppress(OutcomeUnknownError):
        await leader.append([b"does not fit"])
    await full.wait_until_ended()
    assert full.disk.peek(join(directory, DISK_RESERVE)) is None


@on_cluster(settings={"kraft.log.preallocate.bytes": "4096"})
async def test_a_full_disk_has_room_for_what_is_preallocated(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await leader.append([b"before"])
    await cluster.wait_until_alike()
    full = cluster.machines[leader.key.id]
    await disk.full_disk(full.id).take(cluster)
    await leader.append([b"within"])
    with suppress(OutcomeUnknownError):
        await leader.append([b"x" * 5000])
    await full.wait_until_ended()
    assert isinstance(full.failure, DiskFullError)
    await disk.free_disk(full.id).take(cluster)
    await full.start()
    await cluster.wait_until_alike()
    assert values_in(cluster.nodes[full.id])[:2] == [b"before", b"within"]
