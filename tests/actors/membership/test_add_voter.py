"""AddRaftVoter, over the wire: KIP-853 "AddVoter", its steps and every error."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest
import trio

from kraft_trio.actors.network.voter_change_requests import FORWARDER_CLIENT_ID
from kraft_trio.messages import LeadershipLost
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.wire.error_codes import ErrorCode
from tests.actors.network.test_listener_admission import at_clients, start_with_client_listener
from tests.support.on_cluster import on_cluster
from tests.support.voter_change_requests import (
    add_voter,
    beside,
    elected,
    held,
    until_asked,
    voters_everywhere,
)


@on_cluster(observers=1)
async def test_a_caught_up_observer_becomes_a_voter(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    response = await add_voter(cluster, leader, cluster.key_of(4))
    assert (response.error, response.error_message) == (ErrorCode.none, None)
    assert leader.high_watermark == leader.log.end_offset, "answered when it has committed"
    await cluster.wait_until(lambda: voters_everywhere(cluster, 1, 2, 3, 4))
    added = leader.log.voters.voters.get(4)
    assert added == cluster.config_of(4).as_voter(cluster.key_of(4).directory_id)


@on_cluster(observers=1, started=(1, 2, 3))
async def test_a_listener_of_a_broker_is_refused(cluster: Cluster) -> None:
    """KAFKA-19021.  A broker has listeners for clients only: none of them serves Vote."""
    leader = await cluster.wait_for_leader()
    await start_with_client_listener(cluster, 4)
    await cluster.wait_until_alike()
    end = leader.log.end_offset
    for_clients = at_clients(4)
    response = await add_voter(cluster, leader, cluster.key_of(4), listeners=Endpoints({LISTENER: for_clients}))
    assert response.error == ErrorCode.invalid_request
    assert str(response.error_message).startswith(
        f"replica {cluster.key_of(4)} serves no votes at {for_clients}: it is a broker, or that is its listener for "
    )
    assert leader.log.end_offset == end
    assert voters_everywhere(cluster, 1, 2, 3)


@on_cluster(observers=1, started=(1, 2, 3))
async def test_a_broker_with_a_listener_of_controllers_is_refused(cluster: Cluster) -> None:
    """KAFKA-19021.  It serves Vote there; but as it fetches, it tells the leader no listener."""
    cluster._configs[4] = attrs.evolve(cluster.config_of(4), process_roles=("broker",))
    await cluster.machines[4].start()
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    end = leader.log.end_offset
    response = await add_voter(cluster, leader, cluster.key_of(4))
    assert response.error == ErrorCode.invalid_request
    assert str(response.error_message).startswith(f"replica {cluster.key_of(4)} has told the leader no listener: ")
    assert leader.log.end_offset == end
    assert voters_everywhere(cluster, 1, 2, 3)


@pytest.mark.parametrize("ack_when_committed", [True, False])
@on_cluster(observers=1)
async def test_the_answer_waits_for_the_commit_unless_it_need_not(cluster: Cluster, ack_when_committed: bool) -> None:
    """KIP-1186.  Of {1,2,3,4} the leader and 4 are no majority."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            key = cluster.key_of(4)
            asked = beside(nursery, add_voter, cluster, leader, key, ack_when_committed=ack_when_committed)
            await until_asked()
            assert leader.log.voters.voters.ids == (1, 2, 3, 4), "in force when appended"
            assert leader.log.high_watermark != leader.log.end_offset
            assert asked.answered.is_set() is not ack_when_committed
        assert (await asked.wait()).error == ErrorCode.none


@on_cluster(observers=1)
async def test_a_change_waits_for_the_one_before_it(cluster: Cluster) -> None:
    """Where Kafka answers REQUEST_TIMED_OUT at once (KAFKA-17147)."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            first = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
            await until_asked()
            impatient = await add_voter(cluster, leader, ReplicaKey(9, UUID(int=9)), timeout_ms=200)
            assert impatient.error == ErrorCode.request_timed_out
            assert "while waiting for earlier voter changes" in str(impatient.error_message)
            again = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
            await until_asked()
            assert not again.answered.is_set()
        assert (await first.wait()).error == ErrorCode.none
        assert (await again.wait()).error == ErrorCode.duplicate_voter


@on_cluster(observers=1)
async def test_nothing_is_appended_before_the_epoch_is_committed(cluster: Cluster) -> None:
    """Scenario S1, invariant NoEarlyVoterChange."""
    leader = await elected(cluster)
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            refused = await add_voter(cluster, leader, cluster.key_of(4), timeout_ms=300)
            assert refused.error == ErrorCode.request_timed_out
            asked = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
            await until_asked(0.5)
            assert leader.log.voters.voters.ids == (1, 2, 3)
            assert not asked.answered.is_set()
        assert (await asked.wait()).error == ErrorCode.none


@on_cluster(observers=1, kraft_version=0)
async def test_static_voters_are_not_added_to(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    response = await add_voter(cluster, leader, cluster.key_of(4))
    assert response.error == ErrorCode.unsupported_version
    assert "kraft.version is 0" in str(response.error_message)


@pytest.mark.parametrize("other_disk", [False, True])
@on_cluster()
async def test_an_id_is_added_once(cluster: Cluster, other_disk: bool) -> None:
    leader = await cluster.wait_for_leader()
    key = ReplicaKey(3, UUID(int=77)) if other_disk else cluster.key_of(3)
    response = await add_voter(cluster, leader, key)
    assert response.error == ErrorCode.duplicate_voter
    assert str(cluster.key_of(3)) in str(response.error_message)


@pytest.mark.parametrize("client_id", ["raft-client-4", FORWARDER_CLIENT_ID])
@on_cluster()
async def test_a_node_that_does_not_lead_says_who_does(cluster: Cluster, client_id: str) -> None:
    """To replicas and to nodes that pass requests on; see test_change_forwarding.py."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    response = await add_voter(cluster, cluster.others(leader)[0], ReplicaKey(4, UUID(int=4)), client_id=client_id)
    assert response.error == ErrorCode.not_leader_or_follower
    assert f"node {leader.key.id} leads epoch 1, at {cluster.endpoint_of(leader.key.id)}" in str(response.error_message)


@on_cluster(observers=1)
async def test_another_cluster_is_refused_and_none_is_accepted(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    response = await add_voter(cluster, leader, cluster.key_of(4), cluster_id="another")
    assert response.error == ErrorCode.inconsistent_cluster_id
    assert leader.log.end_offset == end
    assert (await add_voter(cluster, leader, cluster.key_of(4), cluster_id=None)).error == ErrorCode.none


KEY = ReplicaKey(4, UUID(int=4))
HERE = Endpoint("host", 1)


@pytest.mark.parametrize(
    ("key", "listeners", "complaint"),
    [
        (ReplicaKey(4, NO_DIRECTORY_ID), {LISTENER: HERE}, "has no directory id"),
        (ReplicaKey(-1, UUID(int=4)), {LISTENER: HERE}, "voter id -1"),
        (KEY, {"OTHER": HERE}, f"listeners OTHER: expected {LISTENER}"),
        (KEY, {}, "listeners none"),
        (KEY, {LISTENER: Endpoint("", 1)}, "expected a host"),
        (KEY, {LISTENER: Endpoint("host", 0)}, "a port from 1 on"),
        (KEY, {LISTENER: Endpoint("x" * 30_000, 1)}, "30000 characters"),
        (KEY, {LISTENER: HERE} | {f"L{n}": HERE for n in range(500)}, "501 listeners"),
    ],
)
@on_cluster(voters=1)
async def test_malformed_voters_are_refused_at_once(
    cluster: Cluster, key: ReplicaKey, listeners: dict[str, Endpoint], complaint: str
) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    response = await add_voter(cluster, leader, key, listeners=Endpoints(listeners))
    assert response.error == ErrorCode.invalid_request
    assert complaint in str(response.error_message)
    assert leader.log.end_offset == end


@pytest.mark.parametrize("timeout_ms", [0, -1])
@on_cluster(voters=1)
async def test_a_time_that_is_none_is_refused(cluster: Cluster, timeout_ms: int) -> None:
    leader = await cluster.wait_for_leader()
    response = await add_voter(cluster, leader, KEY, timeout_ms=timeout_ms)
    assert response.error == ErrorCode.invalid_request
    assert f"timeout {timeout_ms} ms" in str(response.error_message)


@on_cluster(observers=1)
async def test_a_listener_twice_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    twice = Endpoints([(LISTENER, cluster.endpoint_of(4)), (LISTENER, cluster.endpoint_of(3))])
    response = await add_voter(cluster, leader, cluster.key_of(4), listeners=twice)
    assert response.error == ErrorCode.invalid_request


@on_cluster(observers=1)
async def test_a_voter_that_does_not_answer_is_waited_for(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    cluster.machines[4].kill()
    await cluster.machines[4].wait_until_ended()
    end = leader.log.end_offset
    started = cluster.now_s
    refused = await add_voter(cluster, leader, cluster.key_of(4), timeout_ms=1500)
    assert refused.error == ErrorCode.request_timed_out
    assert cluster.now_s - started == pytest.approx(1.5, abs=0.1), "TimeoutMs is honoured"
    assert f"an answer of replica {cluster.key_of(4)} at {cluster.endpoint_of(4)}" in str(refused.error_message)
    assert leader.log.end_offset == end
    async with trio.open_nursery() as nursery:
        asked = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
        await until_asked(1)
        await cluster.machines[4].start()
        assert (await asked.wait()).error == ErrorCode.none


@on_cluster(observers=1)
async def test_a_voter_that_is_too_old_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    cluster.network.cap_versions(cluster.machines[4].host, {}, kraft_version=0)
    response = await add_voter(cluster, leader, cluster.key_of(4))
    assert response.error == ErrorCode.invalid_request
    assert "supports kraft.version 0 to 0, it is 1" in str(response.error_message)


@on_cluster(observers=1)
async def test_a_voter_that_lags_is_waited_for(cluster: Cluster) -> None:
    """It answers, and does not fetch."""
    leader = await cluster.wait_for_leader()
    cluster.network.answers_only(cluster.machines[4].host, cluster.machines[leader.key.id].host)
    await leader.append([b"what 4 has not got"])
    await trio.sleep(3)
    refused = await add_voter(cluster, leader, cluster.key_of(4), timeout_ms=1000)
    assert refused.error == ErrorCode.request_timed_out
    assert "to catch up with the leader" in str(refused.error_message)
    async with trio.open_nursery() as nursery:
        asked = beside(nursery, add_voter, cluster, leader, cluster.key_of(4), timeout_ms=20_000)
        await until_asked(1)
        assert leader.log.voters.voters.ids == (1, 2, 3)
        cluster.heal()
        assert (await asked.wait()).error == ErrorCode.none


@on_cluster(observers=1)
async def test_who_answers_in_its_place_makes_nobody_a_voter(cluster: Cluster) -> None:
    """At the address that is given another node listens: it answers, but only the replica itself can catch up."""
    leader = await cluster.wait_for_leader()
    cluster.machines[4].kill()
    await trio.sleep(3)
    elsewhere = Endpoints({LISTENER: cluster.endpoint_of(2)})
    refused = await add_voter(cluster, leader, cluster.key_of(4), listeners=elsewhere, timeout_ms=500)
    assert refused.error == ErrorCode.request_timed_out
    assert leader.log.voters.voters.ids == (1, 2, 3)


@on_cluster(observers=1)
async def test_a_write_that_fails_may_have_appended_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    machine = cluster.machines[leader.key.id]
    machine.excuse("its disk fails")
    monkeypatch.setattr(machine.disk.random, "randint", lambda _low, high: high)
    machine.disk.fail("append", name=".log")
    end = leader.log.end_offset
    response = await add_voter(cluster, leader, cluster.key_of(4))
    assert response.error == ErrorCode.not_leader_or_follower
    assert f"appended at offset {end}, it may still commit" in str(response.error_message)
    await machine.wait_until_ended()
    again = await machine.start()
    assert cluster.key_of(4) in [voter.key for voter in again.log.voters.voters], "it is in the log"


@on_cluster(observers=1)
async def test_who_loses_the_leadership_says_whether_it_was_appended(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            appended = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
            await until_asked()
            waiting = beside(nursery, add_voter, cluster, leader, KEY)
            await until_asked()
            end = leader.log.end_offset
            await leader.election.tell(LeadershipLost(leader.view.stamp, "the test wants it"))
            assert (await appended.wait()).error == ErrorCode.not_leader_or_follower
            assert f"appended at offset {end - 1}, it may still commit" in appended.answer.error_message
            assert (await waiting.wait()).error == ErrorCode.not_leader_or_follower
            assert "appended" not in waiting.answer.error_message


@on_cluster(observers=1)
async def test_a_timeout_after_the_append_is_told_and_it_goes_on(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    with held(cluster, leader):
        late = await add_voter(cluster, leader, cluster.key_of(4), timeout_ms=300)
        assert late.error == ErrorCode.request_timed_out
        assert late.error_message == f"appended at offset {leader.log.end_offset - 1}: it may still commit"
        # It keeps its turn: the next one still waits for it.
        next_one = await add_voter(cluster, leader, KEY, timeout_ms=200)
        assert "earlier voter changes" in str(next_one.error_message)
    await cluster.wait_until(lambda: leader.log.high_watermark == leader.log.end_offset)
    assert leader.log.voters.voters.ids == (1, 2, 3, 4)


@on_cluster(observers=1)
async def test_a_second_delivery_of_a_request_changes_nothing(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await add_voter(cluster, leader, cluster.key_of(4))
    end = leader.log.end_offset
    assert (await add_voter(cluster, leader, cluster.key_of(4))).error == ErrorCode.duplicate_voter
    assert leader.log.end_offset == end


@on_cluster(observers=1)
async def test_a_change_that_expires_as_it_is_appended_is_not_appended(cluster: Cluster) -> None:
    """Whatever the moment: either nothing is appended, or the change keeps its turn until it has committed."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    for timeout_ms in range(1, 12):
        response = await add_voter(cluster, leader, cluster.key_of(4), timeout_ms=timeout_ms)
        is_in = 4 in leader.log.voters.voters.ids
        if is_in:
            assert response.error == ErrorCode.none or "appended at offset" in str(response.error_message)
            break
        assert response.error == ErrorCode.request_timed_out
        assert "appended" not in str(response.error_message)
