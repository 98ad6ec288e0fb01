"""The admin client: any node leads to the leader's description; without a leader, nodes describe themselves."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio
import trio.testing
from scripted_quorum import CLUSTER_ID, ScriptedQuorum, endpoint_of
from trio.testing import MockClock

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.node_answer import DEFAULT_TOPIC
from kraft_trio.client.quorum_description import NodeView, NoLeader, QuorumDescription, ReplicaState
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.wire.api import DESCRIBE_CLUSTER, DESCRIBE_QUORUM, METADATA
from kraft_trio.wire.tcp_network import TcpNetwork


class TestDescribe:
    @pytest.mark.parametrize("leader_id", [1, 2, 3])
    async def test_the_leaders_words_from_any_node(self, leader_id: int, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(leader_id=leader_id)
        async with quorum.running() as network:
            answer = await AdminClient([endpoint_of(1)], network=network).describe_metadata_quorum()
        assert isinstance(answer, QuorumDescription)
        assert (answer.cluster_id, answer.leader_id, answer.leader_epoch, answer.high_watermark) == (
            CLUSTER_ID,
            leader_id,
            5,
            8,
        )
        assert answer.voters[1] == ReplicaState(ReplicaKey(2, UUID(int=102)), 8, 1000, 990)
        assert answer.observers == (ReplicaState(ReplicaKey(9, UUID(int=109))),)
        assert answer.endpoints[3] == Endpoints({"CONTROLLER": endpoint_of(3)})

    async def test_a_dead_bootstrap_node_does_not_matter(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(leader_id=3, down={1})
        async with quorum.running() as network:
            answer = await AdminClient([endpoint_of(1), endpoint_of(2)], network=network).describe_metadata_quorum()
        assert isinstance(answer, QuorumDescription)
        assert answer.leader_id == 3

    async def test_a_node_without_metadata_is_asked_for_kafkas_topic(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(unserved={METADATA.key, DESCRIBE_CLUSTER.key}, topic_name=DEFAULT_TOPIC)
        async with quorum.running() as network:
            answer = await AdminClient(quorum.bootstrap, network=network).describe_metadata_quorum()
        assert isinstance(answer, QuorumDescription)
        assert answer.cluster_id is None

    @pytest.mark.parametrize("leader_id", [1, 2, 3])
    async def test_kafkas_controllers_name_each_other(self, leader_id: int, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(
            unserved={METADATA.key}, refusals_tell_zeros=True, topic_name=DEFAULT_TOPIC, leader_id=leader_id
        )
        async with quorum.running() as network:
            answer = await AdminClient([endpoint_of(1)], network=network).describe_metadata_quorum()
        assert isinstance(answer, QuorumDescription)
        assert (answer.cluster_id, answer.leader_id) == (CLUSTER_ID, leader_id)

    @pytest.mark.parametrize("leader_id", [2, None])
    async def test_a_leader_that_is_not_registered_is_found(
        self, leader_id: int | None, autojump_clock: MockClock
    ) -> None:
        quorum = ScriptedQuorum(
            unserved={METADATA.key},
            refusals_tell_zeros=True,
            unregistered={2},
            topic_name=DEFAULT_TOPIC,
            leader_id=leader_id,
        )
        async with quorum.running() as network:
            answer = await AdminClient([endpoint_of(1)], network=network).describe_metadata_quorum(500)
        if leader_id is None:
            assert answer == NoLeader(CLUSTER_ID, (NodeView(endpoint_of(1), None),))
        else:
            assert isinstance(answer, QuorumDescription)
            assert answer.leader_id == leader_id

    async def test_a_broker_of_kafka_has_the_topics_of_its_users(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(node_ids=(1,), topic_name=DEFAULT_TOPIC, users_topic="orders")
        async with quorum.running() as network:
            answer = await AdminClient(quorum.bootstrap, network=network).describe_metadata_quorum()
        assert isinstance(answer, QuorumDescription)
        assert (answer.cluster_id, answer.leader_id) == (CLUSTER_ID, 1)

    async def test_kafkas_controllers_name_nobody_without_a_leader(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(
            unserved={METADATA.key}, refusals_tell_zeros=True, topic_name=DEFAULT_TOPIC, leader_id=None
        )
        async with quorum.running() as network:
            answer = await AdminClient([endpoint_of(1)], network=network).describe_metadata_quorum(500)
        assert answer == NoLeader(CLUSTER_ID, (NodeView(endpoint_of(1), None),))

    async def test_an_election_is_waited_out(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(leader_id=None)

        async def elect() -> None:
            await trio.sleep(2)
            quorum.leader_id = 2

        async with quorum.running() as network, trio.open_nursery() as nursery:
            nursery.start_soon(elect)
            answer = await AdminClient(quorum.bootstrap, network=network).describe_metadata_quorum(5000)
        assert isinstance(answer, QuorumDescription)
        assert answer.leader_id == 2


class TestNoLeader:
    async def test_each_node_says_what_it_knows(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(leader_id=None, down={2})
        async with quorum.running() as network:
            answer = await AdminClient(quorum.bootstrap, network=network).describe_metadata_quorum(1000)
            assert trio.current_time() <= 1
        assert answer == NoLeader(
            CLUSTER_ID,
            (
                NodeView(endpoint_of(1), None, None, 5),
                NodeView(endpoint_of(2), "Connection refused"),
                NodeView(endpoint_of(3), None, None, 5),
            ),
        )
        assert answer.reachable == 2
        assert list(map(str, answer.views)) == [
            "node-1:9093: knows no leader in epoch 5",
            "node-2:9093: Connection refused",
            "node-3:9093: knows no leader in epoch 5",
        ]

    async def test_a_leader_that_is_gone_is_named_and_asked(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(leader_id=3, down={3})
        async with quorum.running() as network:
            answer = await AdminClient([endpoint_of(1)], network=network).describe_metadata_quorum(1000)
        assert isinstance(answer, NoLeader)
        assert [str(view) for view in answer.views] == [
            "node-1:9093: names node 3 as leader in epoch 5",
            "node-3:9093: Connection refused",
        ]

    async def test_nobody_reachable_is_known_at_once(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(down={1, 2, 3})
        async with quorum.running() as network:
            answer = await AdminClient(quorum.bootstrap, network=network).describe_metadata_quorum(60_000)
            assert trio.current_time() < 1
        assert isinstance(answer, NoLeader)
        assert (answer.cluster_id, answer.reachable) == (None, 0)

    async def test_a_silent_node_is_waited_for_no_longer_than_asked(self, autojump_clock: MockClock) -> None:
        class Silent:
            async def connect(self, endpoint: Endpoint) -> trio.abc.Stream:
                await trio.sleep_forever()
                raise AssertionError

            async def listen(self, endpoint: Endpoint) -> object:
                raise AssertionError

        client = AdminClient([endpoint_of(1)], network=Silent(), request_timeout_ms=700)  # type: ignore[arg-type]
        answer = await client.describe_metadata_quorum(60_000)
        assert trio.current_time() == pytest.approx(0.7)
        assert answer == NoLeader(None, (NodeView(endpoint_of(1), "no connection within 700 ms"),))

    async def test_what_takes_connections_and_is_no_node(self, autojump_clock: MockClock) -> None:
        class Mute:
            async def connect(self, endpoint: Endpoint) -> trio.abc.Stream:
                near, self.far = trio.testing.memory_stream_pair()
                return near

            async def listen(self, endpoint: Endpoint) -> object:
                raise AssertionError

        client = AdminClient([endpoint_of(1)], network=Mute(), request_timeout_ms=700)  # type: ignore[arg-type]
        answer = await client.describe_metadata_quorum(0)
        problem = "it took the connection, but did not say which versions it speaks within 700 ms"
        assert answer == NoLeader(None, (NodeView(endpoint_of(1), problem),))

    async def test_what_does_not_describe_quorums(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(unserved={DESCRIBE_QUORUM.key})
        async with quorum.running() as network:
            answer = await AdminClient([endpoint_of(1)], network=network).describe_metadata_quorum(0)
        assert isinstance(answer, NoLeader)
        assert "DescribeQuorum" in str(answer.views[0])

    async def test_an_error_is_named(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(unserved={METADATA.key}, topic_name="other")
        async with quorum.running() as network:
            answer = await AdminClient([endpoint_of(1)], network=network).describe_metadata_quorum(0)
        assert isinstance(answer, NoLeader)
        assert str(answer.views[0]) == "node-1:9093: answers unknown_topic_or_partition"

    async def test_the_operating_systems_reason_is_told(self) -> None:
        listener = await TcpNetwork().listen(Endpoint("127.0.0.1", 0))
        endpoint = listener.endpoint
        await listener.aclose()
        answer = await AdminClient([endpoint]).describe_metadata_quorum(0)
        assert isinstance(answer, NoLeader)
        assert str(answer.views[0]) == f"{endpoint}: Connection refused"


async def test_no_connection_stays_open(autojump_clock: MockClock) -> None:
    quorum = ScriptedQuorum(leader_id=2)
    async with quorum.running() as network:
        await AdminClient(quorum.bootstrap, network=network).describe_metadata_quorum()
        await trio.testing.wait_all_tasks_blocked()
        assert quorum.open_connections == 0


def test_a_client_needs_somewhere_to_begin() -> None:
    with pytest.raises(ValueError, match="bootstrap: no endpoint given"):
        AdminClient([])


def description(*voters: tuple[int, int, int], observers: tuple[ReplicaState, ...] = ()) -> QuorumDescription:
    """Leader 1; voters as (id, log end offset, last caught up)."""
    states = tuple(ReplicaState(ReplicaKey(id), end, 0, caught_up) for id, end, caught_up in voters)
    return QuorumDescription("c", 1, 4, 10, states, observers)


@pytest.mark.parametrize(
    ("quorum", "lag", "lag_time_ms"),
    [
        (description((1, 10, 500)), 0, 0),
        (description((1, 10, 500), (2, 10, 400)), 0, 0),
        (description((1, 10, 500), (2, 7, 400), (3, 9, 450)), 3, 100),
        (description((1, 10, 500), (2, -1, -1)), 10, -1),
        (description((1, 10, 500), (2, 7, -1)), 3, -1),
        (description((2, 7, 400), (3, 9, 400), observers=(ReplicaState(ReplicaKey(1), 10, 0, 500),)), 3, 100),
    ],
)
def test_the_lag_of_the_voter_furthest_behind(quorum: QuorumDescription, lag: int, lag_time_ms: int) -> None:
    assert quorum.max_follower_lag() == lag
    assert quorum.max_follower_lag_time_ms() == lag_time_ms


def test_lags_are_unknown_where_an_end_is() -> None:
    quorum = description((1, 10, 500), (2, -1, -1))
    assert [quorum.lag(voter) for voter in quorum.voters] == [0, -1]
    without_leader = description((2, 7, 0))
    assert without_leader.lag(without_leader.voters[0]) == -1
    assert without_leader.max_follower_lag() == -1
    assert without_leader.max_follower_lag_time_ms() == -1
