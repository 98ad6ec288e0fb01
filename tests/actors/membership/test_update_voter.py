"""UpdateRaftVoter: what voters tell the leader of themselves, and what it makes of that (KIP-853 "UpdateVoter")."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio

from kraft_trio.actors.membership.update_voter_sender import UpdateVoterSender
from kraft_trio.messages import LeaderHeardOf, LeadershipLost, Stamp
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.storage.batches.batch import encode_control_batch
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.wire.api import UPDATE_RAFT_VOTER, advertised_ranges
from kraft_trio.wire.apis.api_versions import ApiVersionsResponse
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft_trio.wire.codec import decode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.framing import FrameReader
from tests.support.epoch_context import lone_epoch
from tests.support.on_cluster import on_cluster
from tests.support.voter_change_requests import (
    add_voter,
    answering_versions,
    beside,
    elected,
    held,
    listening,
    until_asked,
    update_voter,
    upgrade,
)

EXTRA = Endpoint("second", 9094)


def two_listeners(cluster: Cluster, id: int) -> Endpoints:
    return Endpoints({LISTENER: cluster.endpoint_of(id), "SECOND": EXTRA})


@on_cluster()
async def test_an_update_is_in_the_set_when_it_has_committed(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    key = cluster.others(leader)[0].key
    cluster.machines[key.id].kill()  # else it would at once say the opposite
    await trio.sleep(0.1)
    await cluster.machines[key.id].wait_until_ended()
    async with listening(cluster, EXTRA, answering_versions()):
        response = await update_voter(cluster, leader, key, listeners=Endpoints({LISTENER: EXTRA}))
    assert (response.error, response.leader_id, response.leader_epoch) == (ErrorCode.none, leader.key.id, 1)
    assert response.leader_endpoint == cluster.endpoint_of(leader.key.id)
    assert leader.log.voters.voters.get(key.id).endpoints.get(LISTENER) == EXTRA  # type: ignore[union-attr]
    assert leader.log.high_watermark == leader.log.end_offset


VERSIONS = ApiVersionsResponse(apis=advertised_ranges())


@on_cluster()
async def test_what_is_in_the_set_already_is_acknowledged(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    assert (await update_voter(cluster, leader, cluster.key_of(3))).error == ErrorCode.none
    assert leader.log.end_offset == end


@on_cluster()
async def test_an_address_that_nobody_reaches_never_gets_into_the_set(cluster: Cluster) -> None:
    """KAFKA-20661."""
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    nowhere = Endpoints({LISTENER: Endpoint("nowhere", 1)})
    response = await update_voter(cluster, leader, cluster.others(leader)[0].key, listeners=nowhere)
    assert response.error == ErrorCode.request_timed_out
    assert leader.log.end_offset == end


@on_cluster()
async def test_nor_does_one_at_which_a_broker_is_not_available(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    async with listening(cluster, EXTRA, answering_versions(ErrorCode.broker_not_available)):
        moved = Endpoints({LISTENER: EXTRA})
        response = await update_voter(cluster, leader, cluster.others(leader)[0].key, listeners=moved)
    assert response.error == ErrorCode.request_timed_out
    assert leader.log.end_offset == end


@on_cluster()
async def test_versions_without_the_finalized_one_are_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    for versions in (VersionRange(0, 0), VersionRange(2, 3), VersionRange(1, 0)):
        response = await update_voter(cluster, leader, cluster.key_of(3), kraft_versions=versions)
        assert response.error == ErrorCode.invalid_request
    assert leader.log.voters.voters.get(3).kraft_versions == VersionRange(0, 1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("key", "listeners"),
    [
        (ReplicaKey(3, NO_DIRECTORY_ID), {LISTENER: EXTRA}),
        (ReplicaKey(-3, UUID(int=3)), {LISTENER: EXTRA}),
        (ReplicaKey(3, UUID(int=3)), {"SECOND": EXTRA}),
        (ReplicaKey(3, UUID(int=3)), {LISTENER: Endpoint("", 0)}),
    ],
)
@on_cluster()
async def test_malformed_updates_are_refused(cluster: Cluster, key: ReplicaKey, listeners: dict[str, Endpoint]) -> None:
    leader = await cluster.wait_for_leader()
    response = await update_voter(cluster, leader, key, listeners=Endpoints(listeners))
    assert response.error == ErrorCode.invalid_request


@pytest.mark.parametrize("key", [ReplicaKey(3, UUID(int=3)), ReplicaKey(4, UUID(int=4))], ids=["disk", "id"])
@on_cluster()
async def test_only_voters_are_updated(cluster: Cluster, key: ReplicaKey) -> None:
    leader = await cluster.wait_for_leader()
    assert (await update_voter(cluster, leader, key)).error == ErrorCode.voter_not_found


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_nobody_tells_a_leader_where_it_is(kraft_version: int) -> None:
    """It would not contradict: who leads sends no updates.  Nor, with static voters, on which disk it is."""

    @on_cluster(kraft_version=kraft_version)
    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await trio.sleep(1)
        elsewhere = Endpoints({LISTENER: cluster.endpoint_of(cluster.others(leader)[0].key.id)})
        answer = await update_voter(cluster, leader, leader.key, listeners=elsewhere)
        assert answer.error == ErrorCode.invalid_request
        other_disk = await update_voter(cluster, leader, ReplicaKey(leader.key.id, UUID(int=77)))
        assert other_disk.error == (ErrorCode.voter_not_found if kraft_version else ErrorCode.invalid_request)
        assert (await update_voter(cluster, leader, leader.key)).error == ErrorCode.none
        assert (await upgrade(cluster, leader)).error == ErrorCode.none
        own = cluster.config_of(leader.key.id).as_voter(leader.key.directory_id)
        assert leader.log.voters.voters.get(leader.key.id) == own

    test()


@pytest.mark.parametrize(("by", "error"), [(-1, ErrorCode.fenced_leader_epoch), (1, ErrorCode.unknown_leader_epoch)])
@on_cluster()
async def test_another_epoch_is_refused(cluster: Cluster, by: int, error: ErrorCode) -> None:
    leader = await cluster.wait_for_leader()
    response = await update_voter(cluster, leader, cluster.key_of(3), epoch=leader.view.epoch + by)
    assert (response.error, response.leader_id) == (error, leader.key.id)


@on_cluster()
async def test_a_follower_names_the_leader(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    response = await update_voter(cluster, cluster.others(leader)[0], cluster.key_of(3))
    assert (response.error, response.leader_id) == (ErrorCode.not_leader_or_follower, leader.key.id)
    assert response.leader_endpoint == cluster.endpoint_of(leader.key.id)


@on_cluster()
async def test_another_cluster_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    response = await update_voter(cluster, leader, cluster.key_of(3), cluster_id="another")
    assert response.error == ErrorCode.inconsistent_cluster_id


@on_cluster()
async def test_nothing_is_appended_before_the_epoch_is_committed(cluster: Cluster) -> None:
    leader = await elected(cluster)
    end = leader.log.end_offset
    follower = cluster.others(leader)[0].key
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            asked = beside(
                nursery, update_voter, cluster, leader, follower, listeners=two_listeners(cluster, follower.id)
            )
            await until_asked(0.5)
            assert leader.log.end_offset <= max(end, 3), "the first batch of the epoch alone"
            assert not asked.answered.is_set()
        assert (await asked.wait()).error == ErrorCode.none


@on_cluster(observers=1)
async def test_an_update_waits_for_an_addition(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower = cluster.others(leader)[0].key
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            addition = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
            await until_asked()
            end = leader.log.end_offset
            moved = two_listeners(cluster, follower.id)
            update = beside(nursery, update_voter, cluster, leader, follower, listeners=moved)
            await until_asked()
            assert leader.log.end_offset == end
        assert (await addition.wait()).error == ErrorCode.none
        assert (await update.wait()).error == ErrorCode.none


# What voters send


@on_cluster()
async def test_followers_tell_each_leader_once_where_they_are(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(10)
    sent = cluster.network.requests_sent
    for node in cluster.others(leader):
        assert sent[cluster.machines[node.key.id].host, UPDATE_RAFT_VOTER.key] == 1
    assert sent[cluster.machines[leader.key.id].host, UPDATE_RAFT_VOTER.key] == 0
    survivor = cluster.others(leader)
    cluster.machines[leader.key.id].kill()
    successor = await cluster.wait_for_leader(other_than=leader)
    await trio.sleep(10)
    for node in survivor:
        expected = 1 if node is successor else 2
        assert sent[cluster.machines[node.key.id].host, UPDATE_RAFT_VOTER.key] == expected


@on_cluster()
async def test_unacknowledged_news_is_repeated_between_fetches(cluster: Cluster) -> None:
    """Every fetch timeout, although a Fetch is always under way; and those keep the leader in office meanwhile."""
    cluster.network.lose_answers(UPDATE_RAFT_VOTER, times=4)
    leader = await cluster.wait_for_leader()
    await trio.sleep(12)
    sent = cluster.network.requests_sent
    times = [sent[cluster.machines[node.key.id].host, UPDATE_RAFT_VOTER.key] for node in cluster.others(leader)]
    assert sum(times) == 6, "four whose answers are lost, and one that is answered by each"
    assert leader.view.epoch == 1


async def restart_elsewhere(cluster: Cluster, node_id: int) -> None:
    machine = cluster.machines[node_id]
    machine.kill()
    await machine.wait_until_ended()
    cluster.move(node_id)
    await machine.start()


@on_cluster()
async def test_a_follower_that_listens_elsewhere_tells_so(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    moved = cluster.others(leader)[0].key
    await restart_elsewhere(cluster, moved.id)

    def is_known() -> bool:
        return all(
            (voter := node.log.voters.voters.get(moved.id)) is not None
            and voter.endpoints.get(LISTENER) == cluster.endpoint_of(moved.id)
            for node in cluster.nodes.values()
        )

    await cluster.wait_until(is_known)
    await trio.sleep(5)
    assert cluster.network.requests_sent[cluster.machines[moved.id].host, UPDATE_RAFT_VOTER.key] <= 3
    await cluster.wait_until_alike()


@on_cluster(settings={"kraft.voter.gossip.enable": "false"})
async def test_voters_that_all_move_at_once_do_not_find_each_other(cluster: Cluster) -> None:
    """One at a time is what KIP-853 supports; rewriting the endpoints offline is for this (KIP-1347), or gossip."""
    for node_id in cluster.voter_ids:
        cluster.machines[node_id].kill()
        await cluster.machines[node_id].wait_until_ended()
        cluster.move(node_id)
    for node_id in cluster.voter_ids:
        await cluster.machines[node_id].start()
    with pytest.raises(trio.TooSlowError):
        await cluster.wait_for_leader(within_s=10)


def changes_logged(cluster: Cluster) -> list[str]:
    """What nodes say of voter changes from now on."""
    said: list[str] = []

    def note(event: TraceEvent) -> None:
        if event.kind == "log" and event.cause.startswith("voter change"):
            said.append(f"{event.cause}: {event.details['change']}")

    cluster.trace.listeners.append(note)
    return said


@on_cluster(started=())
async def test_a_leader_whose_entry_is_up_to_date_says_nothing(cluster: Cluster) -> None:
    said = changes_logged(cluster)
    for node_id in cluster.voter_ids:
        await cluster.machines[node_id].start()
    leader = await cluster.wait_for_leader()
    await trio.sleep(0.5)
    await leader.election.tell(LeadershipLost(leader.view.stamp, "the test wants it"))
    await cluster.wait_for_leader(other_than=leader)
    assert [text for text in said if "own entry" in text] == []


@on_cluster()
async def test_a_leaders_own_new_address_is_in_the_set(cluster: Cluster) -> None:
    old = await cluster.wait_for_leader()
    await restart_elsewhere(cluster, old.key.id)
    await cluster.wait_for_leader()
    await cluster.wait_until(
        lambda: all(
            node.log.voters.voters.get(old.key.id).endpoints.get(LISTENER)  # type: ignore[union-attr]
            == cluster.endpoint_of(old.key.id)
            for node in cluster.nodes.values()
        )
    )
    leader = await cluster.wait_for_leader()
    while leader.key != old.key:
        machine = cluster.machines[leader.key.id]
        await machine.stop()
        await machine.start()
        leader = await cluster.wait_for_leader(other_than=leader)
    await leader.append([b"reached where it is now"])


@on_cluster(started=())
async def test_an_answer_of_a_newer_epoch_reaches_election(cluster: Cluster) -> None:
    """What any answer says of epoch and leader is believed, a refusal's too."""
    newer = UpdateRaftVoterResponse(ErrorCode.fenced_leader_epoch, 2, 6, cluster.endpoint_of(2))

    async def answer(stream: trio.abc.Stream) -> None:
        reader = FrameReader(stream, 2**20)
        while (frame := await reader.read()) is not None:
            header, request = decode_request(frame)
            response = newer if isinstance(request, UpdateRaftVoterRequest) else VERSIONS
            await stream.send_all(encode_response(header.api, header.version, header.correlation_id, response))

    lone = lone_epoch(cluster, 3, Stamp(1, 1))
    lone.context.log.append_as_leader(encode_control_batch([VotersRecord(cluster.initial_voters)], timestamp_ms=0), 1)
    sender = UpdateVoterSender(lone.context, Follower(1, 1, Endpoints({LISTENER: EXTRA})))
    async with listening(cluster, EXTRA, answer), trio.open_nursery() as nursery:
        nursery.start_soon(sender.run)
        await trio.sleep(0.5)
        nursery.cancel_scope.cancel()
    endpoints = Endpoints({LISTENER: cluster.endpoint_of(2)})
    assert lone.told == [LeaderHeardOf(6, 2, endpoints)]
    await lone.context.log.close()


@on_cluster(kraft_version=0)
async def test_static_voters_are_noted_and_nothing_is_appended(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    assert (await update_voter(cluster, leader, cluster.key_of(3))).error == ErrorCode.none
    assert leader.log.end_offset == end
    await trio.sleep(8)
    for node in cluster.others(leader):
        sent = cluster.network.requests_sent[cluster.machines[node.key.id].host, UPDATE_RAFT_VOTER.key]
        assert sent == 1, "once a leader, until it is acknowledged"
    assert (await upgrade(cluster, leader)).error == ErrorCode.none
