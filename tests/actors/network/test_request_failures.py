"""A bug that a request meets ends that request; only storage and broken invariants end the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.actors.election.election_responses import ElectionResponses
from kraft_trio.actors.membership.voter_change_coordinator import VoterChangeCoordinator
from kraft_trio.actors.network.cluster_requests import ClusterRequests
from kraft_trio.actors.network.list_offsets_requests import ListOffsetsRequests
from kraft_trio.actors.replication.leader_fetches import LeaderFetches
from kraft_trio.errors import KraftError, NetworkError, StorageFailure
from kraft_trio.node import Node
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.simulation import Cluster, InvariantViolated, Setup
from kraft_trio.storage.log.log_state import LogState
from kraft_trio.wire.api import DESCRIBE_QUORUM, LIST_OFFSETS, METADATA, REMOVE_RAFT_VOTER
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest
from kraft_trio.wire.apis.metadata import MetadataRequest
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.lone_node import lone_node
from tests.support.on_cluster import run_on_cluster
from tests.support.raw_client import STRANGER, TOPIC, RawClient, batch_of

Ask = Callable[[RawClient], Any]


def broken(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("a bug that this request meets")


async def broken_later(*_: object, **__: object) -> Any:
    await trio.lowlevel.checkpoint()
    broken()


async def fetch(client: RawClient) -> ErrorCode:
    return (await client.fetch(0)).error


async def produce(client: RawClient) -> ErrorCode:
    return (await client.produce(batch_of(b"v", producer_id=7, base_sequence=0))).error


async def vote(client: RawClient) -> ErrorCode:
    return (await client.vote(STRANGER, 1, (0, 0))).error


async def describe(client: RawClient) -> ErrorCode:
    return (await client.ask(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))).partition_error


async def remove_voter(client: RawClient) -> ErrorCode:
    return (await client.ask(REMOVE_RAFT_VOTER, RemoveRaftVoterRequest(None, 9, STRANGER.directory_id))).error


async def list_offsets(client: RawClient) -> object:
    return await client.ask(LIST_OFFSETS, ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, 5),)))


async def metadata(client: RawClient) -> object:
    return await client.ask(METADATA, MetadataRequest())


ANSWERED: list[tuple[Ask, type, str, Any]] = [
    (fetch, LeaderFetches, "consumer_fetch", broken),
    (produce, ProducerStates, "check", broken),
    (vote, ElectionResponses, "answer", broken),
    (describe, ProgressTable, "describe", broken),
    (remove_voter, VoterChangeCoordinator, "_remove", broken_later),
]
CLOSED: list[tuple[Ask, type, str, Any]] = [
    (metadata, ClusterRequests, "metadata", broken),
    (list_offsets, ListOffsetsRequests, "_search", broken_later),
]


@pytest.mark.parametrize(("ask", "owner", "name", "bug"), ANSWERED, ids=lambda value: getattr(value, "__name__", ""))
async def test_bug_is_answered_and_the_node_goes_on(
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    ask: Ask,
    owner: type,
    name: str,
    bug: Any,
) -> None:
    cluster = Cluster(Setup(voters=1))
    async with lone_node(cluster, 1) as node, RawClient.connected(cluster, 1) as client:
        await node.append([b"leading"])
        stamp = node.view.stamp
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, bug)
            assert await ask(client) == ErrorCode.unknown_server_error
        await goes_on(node, stamp)


@pytest.mark.parametrize(("ask", "owner", "name", "bug"), CLOSED, ids=lambda value: getattr(value, "__name__", ""))
async def test_bug_ends_one_connection_and_the_node_goes_on(
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    ask: Ask,
    owner: type,
    name: str,
    bug: Any,
) -> None:
    cluster = Cluster(Setup(voters=1))
    async with lone_node(cluster, 1) as node, RawClient.connected(cluster, 1) as client:
        await node.append([b"leading"])
        stamp = node.view.stamp
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, bug)
            with pytest.raises(NetworkError):
                await ask(client)
        await goes_on(node, stamp)


async def goes_on(node: Node, stamp: object) -> None:
    assert node.metrics.values()["number-of-failed-requests"] == 1
    await node.append([b"still leading"])
    assert node.view.stamp == stamp


async def test_bug_met_by_a_parked_fetch_is_its_own(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(Setup(voters=1))
    async with lone_node(cluster, 1) as node, RawClient.connected(cluster, 1) as client:
        await node.append([b"leading"])
        errors: list[ErrorCode] = []

        async def park() -> None:
            errors.append((await client.fetch(node.log.end_offset, max_wait_ms=5000, min_bytes=1)).error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(park)
            await trio.testing.wait_all_tasks_blocked()
            monkeypatch.setattr(LeaderFetches, "_read", broken)
            await node.append([b"still leading"])
        assert errors == [ErrorCode.unknown_server_error]


@pytest.mark.parametrize("error", [StorageFailure("the disk"), AssertionError("an invariant")], ids=repr)
async def test_storage_and_invariants_end_the_node(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    cluster = Cluster(Setup(voters=1))

    def fails(*_: object) -> None:
        raise error

    async def ask() -> None:
        async with lone_node(cluster, 1) as node, RawClient.connected(cluster, 1) as client:
            await node.append([b"leading"])
            monkeypatch.setattr(LeaderFetches, "consumer_fetch", fails)
            await client.fetch(0)
            await trio.sleep_forever()

    with pytest.raises(type(error)):
        await ask()


async def test_batch_that_cannot_be_folded_ends_the_node(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is in the file and not in memory.  That is the node's own state, whichever client sent it."""
    cluster = Cluster(Setup(voters=1))

    async def ask() -> None:
        async with lone_node(cluster, 1) as node, RawClient.connected(cluster, 1) as client:
            await node.append([b"leading"])
            monkeypatch.setattr(LogState, "fold", broken)
            await client.produce(batch_of(b"v"))
            await trio.sleep_forever()

    with pytest.raises(KraftError):
        await ask()


def test_simulated_run_fails_with_a_bug_that_a_request_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        monkeypatch.setattr(LeaderFetches, "consumer_fetch", broken)
        async with RawClient.connected(cluster, 1) as client:
            await client.fetch(0)

    with pytest.raises(InvariantViolated, match="a bug that this request meets"):
        run_on_cluster(ask, Setup(voters=1))
