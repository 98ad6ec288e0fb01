"""Changes asked for through the admin client: they go to the leader itself, and to the next one."""

from __future__ import annotations

from collections import deque
from typing import Any
from uuid import UUID

import pytest
import trio
from scripted_quorum import ScriptedQuorum
from trio.testing import MockClock

from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import FeatureLevels, QuorumDescription
from kraft_trio.errors import NetworkError, OutcomeUnknownError
from kraft_trio.protocol.types import Endpoints, ReplicaKey, VersionRange
from kraft_trio.simulation import Cluster
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster

NOT_LEADER = ErrorCode.not_leader_or_follower


def admin(cluster: Cluster, *node_ids: int) -> AdminClient:
    """A client that knows these nodes, by default the initial voters."""
    network = cluster.network.seen_from("client-admin")
    return AdminClient([cluster.endpoint_of(id) for id in node_ids or cluster.voter_ids], network=network)


def listeners_of(cluster: Cluster, node_id: int) -> Endpoints:
    return cluster.config_of(node_id).advertised_endpoints()


async def ids_of(client: AdminClient) -> list[int]:
    answer = await client.describe_metadata_quorum()
    assert isinstance(answer, QuorumDescription)
    return [state.key.id for state in answer.voters]


@pytest.mark.parametrize("asked", [1, 2, 3, 4])
def test_any_node_may_be_asked_and_the_leader_does_it(asked: int) -> None:
    @on_cluster(observers=1)
    async def change(cluster: Cluster) -> None:
        """Followers and observers pass the question who leads on, but not a change."""
        await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        client = admin(cluster, asked)
        await client.add_metadata_voter(cluster.key_of(4), listeners_of(cluster, 4))
        assert await ids_of(client) == [1, 2, 3, 4]
        await client.remove_metadata_voter(cluster.key_of(4))
        assert await ids_of(client) == [1, 2, 3]

    change()


@on_cluster(observers=1)
async def test_a_reassignment_is_described_until_its_end(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    cluster.machines[4].kill()
    client = admin(cluster)
    await client.alter_partition_reassignments([1, 2, 4])
    answer = await client.describe_metadata_quorum()
    assert isinstance(answer, QuorumDescription)
    assert [state.key.id for state in answer.target_voters] == [1, 2, 4]
    assert answer.reassignment_status
    await client.alter_partition_reassignments(None)
    answer = await client.describe_metadata_quorum()
    assert isinstance(answer, QuorumDescription)
    assert (answer.target_voters, answer.reassignment_status) == ((), None)
    with pytest.raises(VoterChangeError, match="NO_REASSIGNMENT_IN_PROGRESS"):
        await client.alter_partition_reassignments(None)


@on_cluster(observers=1)
async def test_where_the_leadership_is_lost_the_next_leader_is_asked(cluster: Cluster) -> None:
    """The new voter is not there yet, so that the first leader waits; it resigns, and the second one adds it."""
    first = await cluster.wait_for_leader()
    cluster.machines[4].kill()
    client = admin(cluster)

    async def go_on() -> None:
        await trio.sleep(2)
        await cluster.machines[first.key.id].stop()
        await cluster.machines[first.key.id].start()
        await cluster.machines[4].start()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(go_on)
        await client.add_metadata_voter(cluster.key_of(4), listeners_of(cluster, 4), timeout_ms=60_000)
    assert await ids_of(client) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"voter": ReplicaKey(2**31, UUID(int=107))}, "voter: 2147483648, expected 0 to 2147483647"),
        ({"timeout_ms": 2**31}, "timeout_ms: 2147483648, expected 1 to 2147483647"),
        ({"timeout_ms": 0}, "timeout_ms: 0, expected 1 to"),
    ],
)
async def test_what_no_request_can_carry_is_not_sent(
    fields: dict[str, Any], message: str, autojump_clock: MockClock
) -> None:
    quorum = ScriptedQuorum()
    async with quorum.running() as network:
        client = AdminClient(quorum.bootstrap, network=network)
        arguments = {"voter": ReplicaKey(7, UUID(int=107)), **fields}
        with pytest.raises(ValueError, match=message):
            await client.add_metadata_voter(listeners=Endpoints(), **arguments)
        with pytest.raises(ValueError, match=message):
            await client.remove_metadata_voter(**arguments)
        with pytest.raises(ValueError, match="target: -1, expected 0 to 2147483647"):
            await client.alter_partition_reassignments([-1])
        with pytest.raises(ValueError, match=r"levels\['kraft.version'\]: 32768, expected 0 to 32767"):
            await client.update_features({"kraft.version": 32768})
    assert quorum.asked == []


async def test_mistaken_arguments_get_a_sentence(autojump_clock: MockClock) -> None:
    quorum = ScriptedQuorum()
    key: Any = ReplicaKey(7, UUID(int=107))
    text: Any = "7"
    async with quorum.running() as network:
        client = AdminClient(quorum.bootstrap, network=network)
        with pytest.raises(TypeError, match="voter: '7', expected a ReplicaKey"):
            await client.add_metadata_voter(text, Endpoints())
        with pytest.raises(TypeError, match="listeners: '7', expected Endpoints, as NodeConfig"):
            await client.add_metadata_voter(key, text)
        with pytest.raises(TypeError, match="timeout_ms: '7', expected a number from 1 to"):
            await client.remove_metadata_voter(key, timeout_ms=text)
        with pytest.raises(TypeError, match="target: '7', expected a list of ids and ReplicaKeys, or None"):
            await client.alter_partition_reassignments(text)
        with pytest.raises(TypeError, match="target: '7', expected a ReplicaKey"):
            await client.alter_partition_reassignments([text])
        with pytest.raises(TypeError, match="to: '7', expected a number from 0 to"):
            await client.transfer_leadership(text)
        with pytest.raises(TypeError, match="levels: '7', expected a mapping from features to levels"):
            await client.update_features(text)
        with pytest.raises(TypeError, match="node: '7', expected an Endpoint"):
            await client.describe_snapshots(text)
        with pytest.raises(TypeError, match="node: '7', expected an Endpoint"):
            await client.take_snapshot(text)
    assert quorum.asked == []


class TestAskedTwice:
    """The first leader loses its leadership with the change in its log, or not; the next one says which."""

    VOTER = ReplicaKey(2, UUID(int=102))
    NEW = ReplicaKey(7, UUID(int=107))

    async def test_added_by_the_first_leader(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(changes=deque([NOT_LEADER, ErrorCode.duplicate_voter]))
        async with quorum.running() as network:
            await AdminClient(quorum.bootstrap, network=network).add_metadata_voter(self.VOTER, Endpoints())
        assert [name for _, name in quorum.asked].count("AddRaftVoter") == 2

    async def test_removed_by_the_first_leader(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(changes=deque([NOT_LEADER, ErrorCode.voter_not_found]))
        async with quorum.running() as network:
            await AdminClient(quorum.bootstrap, network=network).remove_metadata_voter(self.NEW)

    async def test_another_incarnation_was_added(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(changes=deque([NOT_LEADER, ErrorCode.duplicate_voter]))
        async with quorum.running() as network:
            with pytest.raises(VoterChangeError, match="DUPLICATE_VOTER"):
                await AdminClient(quorum.bootstrap, network=network).add_metadata_voter(
                    ReplicaKey(2, UUID(int=7)), Endpoints()
                )

    async def test_the_last_voter_is_not_found_and_stays(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(changes=deque([NOT_LEADER, ErrorCode.voter_not_found]))
        async with quorum.running() as network:
            with pytest.raises(VoterChangeError, match="VOTER_NOT_FOUND"):
                await AdminClient(quorum.bootstrap, network=network).remove_metadata_voter(self.VOTER)

    async def test_asked_once_a_refusal_is_a_refusal(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(changes=deque([ErrorCode.duplicate_voter]))
        async with quorum.running() as network:
            with pytest.raises(VoterChangeError, match="DUPLICATE_VOTER"):
                await AdminClient(quorum.bootstrap, network=network).add_metadata_voter(self.VOTER, Endpoints())

    async def test_only_until_the_time_is_over(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(changes=deque([NOT_LEADER] * 100))
        async with quorum.running() as network:
            with pytest.raises(VoterChangeError, match="NOT_LEADER_OR_FOLLOWER"):
                await AdminClient(quorum.bootstrap, network=network).remove_metadata_voter(self.VOTER, timeout_ms=3000)
            assert 2.5 <= trio.current_time() <= 3.5

    async def test_nobody_leads_after_the_first(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(changes=deque([NOT_LEADER]), resigns_after_change=True)
        async with quorum.running() as network:
            with pytest.raises(OutcomeUnknownError, match="the leader that was lost may have done it"):
                await AdminClient(quorum.bootstrap, network=network).remove_metadata_voter(self.VOTER, timeout_ms=3000)


@on_cluster(observers=1)
async def test_what_is_refused_says_why(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    client = admin(cluster)
    for change, error in (
        (client.add_metadata_voter(cluster.key_of(2), listeners_of(cluster, 2)), ErrorCode.duplicate_voter),
        (client.remove_metadata_voter(cluster.key_of(4)), ErrorCode.voter_not_found),
        (
            client.add_metadata_voter(ReplicaKey(4), listeners_of(cluster, 4)),
            ErrorCode.invalid_request,
        ),
        (client.update_features({"kraft.version": 0}, allow_downgrade=True), ErrorCode.invalid_update_version),
        (client.update_features({"metadata.version": 7}), ErrorCode.invalid_request),
    ):
        with pytest.raises(VoterChangeError) as refused:
            await change
        assert refused.value.error == error
        assert error.name.upper() in str(refused.value)


@on_cluster(started=(1,))
async def test_without_a_leader_nothing_is_sent(cluster: Cluster) -> None:
    client = admin(cluster)
    with pytest.raises(NetworkError, match=r"remove voter 2-\S+: no leader could be asked in time: node-1:9093: knows"):
        await client.remove_metadata_voter(cluster.key_of(2), timeout_ms=2000)


@on_cluster()
async def test_a_leader_that_does_not_answer_may_have_done_it(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    client = admin(cluster)
    other = cluster.others(leader)[0]

    async def kill_at_append() -> None:
        await cluster.wait_until(lambda: other.key.id not in leader.view.voters.ids)
        cluster.machines[leader.key.id].kill()

    async with trio.open_nursery() as nursery:
        for follower in cluster.others(leader):
            cluster.network.clog(f"node-{leader.key.id}", f"node-{follower.key.id}")
        nursery.start_soon(kill_at_append)
        with pytest.raises(OutcomeUnknownError, match="sent to the leader, which did not answer"):
            await client.remove_metadata_voter(other.key)
    cluster.heal()


@on_cluster(observers=1)
async def test_a_reassignment_whose_answer_is_lost_is_asked_for_again(cluster: Cluster) -> None:
    """KIP-642: it takes effect once, because a target that is in the log already is only answered."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()

    async def kill_at_append() -> None:
        await cluster.wait_until(lambda: leader.log.voters.target)
        cluster.machines[leader.key.id].kill()

    async with trio.open_nursery() as nursery:
        for follower in cluster.others(leader):
            cluster.network.clog(f"node-{leader.key.id}", f"node-{follower.key.id}")
        nursery.start_soon(kill_at_append)
        await admin(cluster).alter_partition_reassignments([1, 2, 4])
    cluster.heal()
    following = await cluster.wait_for_leader(other_than=leader)
    history = following.log.voters
    assert [key.id for key in history.target or (voter.key for voter in history.voters)] == [1, 2, 4]


@on_cluster()
async def test_features(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    told = await admin(cluster).describe_features()
    assert told.features == (FeatureLevels("kraft.version", VersionRange(0, 1), 1),)
    assert told.epoch == leader.view.epoch


@on_cluster(kraft_version=0)
async def test_an_upgrade_is_asked_about_and_then_made(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    client = admin(cluster)
    assert (await client.describe_features()).features == (FeatureLevels("kraft.version", VersionRange(0, 1), 0),)
    await trio.sleep(5)
    await client.update_features({"kraft.version": 1}, validate_only=True)
    assert (await client.describe_features()).features[0].finalized == 0
    await client.update_features({"kraft.version": 1})
    assert (await client.describe_features()).features[0].finalized == 1
