"""Invariants of witnesses fire: 26 and 27."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft_trio.protocol.witness import MAJORITIES
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.api import APIS, VOTE
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchResponse
from kraft_trio.wire.apis.topics import NO_TOPIC_ID
from tests.simulation.fabricated_cluster import FabricatedCluster
from tests.simulation.invariant_stories import Stories, Story

STORIES = Stories()
WITNESS = 3


def with_witness(cluster: FabricatedCluster) -> FabricatedCluster:
    cluster.facts.witnesses = frozenset({WITNESS})
    return cluster


def answer(cluster: FabricatedCluster, fetch: Message) -> None:
    cluster.response(fetch, FetchResponse(partitions=(FetchPartitionResponse("log", NO_TOPIC_ID, 0),)))


@STORIES.of(26)
def a_witness_is_elected_although_nobody_is_behind(cluster: FabricatedCluster) -> Iterator[None]:
    with_witness(cluster).elect(1, by=[2])
    cluster.vote_request(cluster.replica(2).key, WITNESS, 1, pre_vote=True)
    yield
    cluster.elect(WITNESS, by=[2])


@STORIES.of(27)
def a_witness_appends_records_of_clients(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = needed(with_witness(cluster))
    yield
    cluster.append(WITNESS, epoch, b"value")


@STORIES.of(27)
def a_witness_leads_on_after_another_voter_has_its_log(cluster: FabricatedCluster) -> Iterator[None]:
    epoch = needed(with_witness(cluster))
    cluster.commit_everywhere(WITNESS, [2])
    for _ in range(3):
        answer(cluster, cluster.fetch(2, WITNESS, epoch))
    yield
    answer(cluster, cluster.fetch(2, WITNESS, epoch))


def needed(cluster: FabricatedCluster) -> int:
    """Elect the witness lawfully: 2 has missed what 1 has committed with the witness.  Returns the epoch."""
    cluster.elect(1, by=[WITNESS])
    cluster.commit_everywhere(1, [WITNESS])
    cluster.vote_request(cluster.replica(2).key, WITNESS, 1, pre_vote=True)
    return cluster.elect(WITNESS, by=[2])


def test_a_witness_may_pass_its_log_on() -> None:
    cluster = with_witness(FabricatedCluster())
    epoch = needed(cluster)
    cluster.commit_everywhere(WITNESS, [2])
    answer(cluster, cluster.fetch(2, WITNESS, epoch))
    assert not cluster.violations, str(cluster.violations[0])


def test_a_witness_may_lead_if_nobody_else_does() -> None:
    cluster = with_witness(FabricatedCluster())
    for _ in range(MAJORITIES - 1):
        cluster.stand(WITNESS)
    cluster.elect(WITNESS, by=[2])
    assert not cluster.violations, str(cluster.violations[0])


def test_a_full_voter_may_lead() -> None:
    cluster = with_witness(FabricatedCluster())
    epoch = cluster.elect(1, by=[2])
    cluster.follow(WITNESS, 1, epoch)
    cluster.append(1, epoch, b"value")
    cluster.commit_everywhere(1, [2, WITNESS])
    for _ in range(9):
        answer(cluster, cluster.fetch(2, 1, epoch))
    assert not cluster.violations, str(cluster.violations[0])


def test_only_a_delivered_vote_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole frames of every kind are delivered all the time, and to decode each of them costs a run much."""
    decoded: list[str] = []
    monkeypatch.setattr(Message, "_decoded", lambda message: decoded.append(repr(message)))
    cluster = with_witness(FabricatedCluster())
    for api in APIS.values():
        for is_request in (False, True):
            if api is not VOTE or not is_request:
                message = Message(0, 0.0, "a", "b", 0, is_request, api.key, api.max_version, 0, b"")
                cluster.checker.message_delivered(message)
    assert decoded == []
    cluster.checker.message_delivered(Message(0, 0.0, "a", "b", 0, True, VOTE.key, VOTE.max_version, 0, b""))
    assert len(decoded) == 1


@pytest.mark.parametrize("story", STORIES.all, ids=lambda story: story.name)
def test_a_broken_rule_is_found(story: Story) -> None:
    story.tell()
