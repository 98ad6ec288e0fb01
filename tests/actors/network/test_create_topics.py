"""CreateTopics: there is one topic, and nobody adds another."""

from __future__ import annotations

from kraft_trio.actors.network.client_requests import MAX_RESOURCES_WITH_MESSAGE
from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import CREATE_TOPICS, METADATA
from kraft_trio.wire.apis.create_topics import CreateTopicsRequest, CreationResult, NewTopic
from kraft_trio.wire.apis.metadata import MetadataRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC as OURS
from tests.support.voter_change_requests import ask

REASON = f"the only topic here is {OURS}: this quorum creates no others"


@on_cluster()
async def test_each_node_refuses_another_topic_and_knows_its_own(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    request = CreateTopicsRequest((NewTopic("other", 1, 1), NewTopic(OURS, 1, 1), NewTopic("other", 2, 1)))
    for node in cluster.nodes.values():
        answer = await ask(cluster, node, CREATE_TOPICS, request)
        assert answer.results == (
            CreationResult("other", ErrorCode.policy_violation, REASON),
            CreationResult(OURS, ErrorCode.topic_already_exists),
        )
        named = await ask(cluster, node, METADATA, MetadataRequest(None))
        assert [topic.name for topic in named.topics] == [OURS]


@on_cluster(voters=1)
async def test_many_topics_get_no_message(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    count = MAX_RESOURCES_WITH_MESSAGE + 1
    request = CreateTopicsRequest(tuple(NewTopic(f"topic-{number}") for number in range(count)))
    answer = await ask(cluster, leader, CREATE_TOPICS, request)
    assert [(result.error, result.error_message) for result in answer.results] == (
        [(ErrorCode.policy_violation, None)] * count
    )
