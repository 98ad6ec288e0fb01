"""Changes of the voters, asked for over the wire, and moments at which a test wants to look."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import attrs
import trio
import trio.testing

from kraft_trio.node import Node
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import KRAFT_VERSION
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    API_VERSIONS,
    REMOVE_RAFT_VOTER,
    UPDATE_FEATURES,
    UPDATE_RAFT_VOTER,
    Api,
    advertised_ranges,
)
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kraft_trio.wire.apis.api_versions import ApiVersionsResponse, SupportedFeature
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kraft_trio.wire.apis.update_features import FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kraft_trio.wire.codec import decode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.framing import FrameReader
from tests.support.raw_client import RawClient

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


async def ask(
    cluster: Cluster, node: Node, api: Api[RequestT, ResponseT], request: RequestT, client_id: str = "test"
) -> ResponseT:
    """Over a connection of its own."""
    async with RawClient.connected(cluster, node.key.id, client_id=client_id) as client:
        return await client.ask(api, request)


async def add_voter(
    cluster: Cluster,
    node: Node,
    key: ReplicaKey,
    *,
    listeners: Endpoints | None = None,
    timeout_ms: int = 10_000,
    ack_when_committed: bool = True,
    cluster_id: str | None = CLUSTER_ID,
    client_id: str = "test",
) -> AddRaftVoterResponse:
    """Ask `node` to add that replica, which listens where the cluster says unless `listeners` says otherwise."""
    own = Endpoints({LISTENER: cluster.endpoint_of(key.id)}) if listeners is None else listeners
    request = AddRaftVoterRequest(cluster_id, timeout_ms, key.id, key.directory_id, own, ack_when_committed)
    return await ask(cluster, node, ADD_RAFT_VOTER, request, client_id)


async def remove_voter(
    cluster: Cluster,
    node: Node,
    key: ReplicaKey,
    *,
    cluster_id: str | None = CLUSTER_ID,
    client_id: str = "test",
) -> RemoveRaftVoterResponse:
    request = RemoveRaftVoterRequest(cluster_id, key.id, key.directory_id)
    return await ask(cluster, node, REMOVE_RAFT_VOTER, request, client_id)


async def update_voter(
    cluster: Cluster,
    node: Node,
    key: ReplicaKey,
    *,
    listeners: Endpoints | None = None,
    kraft_versions: VersionRange | None = None,
    epoch: int | None = None,
    cluster_id: str | None = CLUSTER_ID,
) -> UpdateRaftVoterResponse:
    """Tell `node`, in its own epoch unless `epoch` says otherwise, what that voter says of itself."""
    request = UpdateRaftVoterRequest(
        cluster_id,
        node.view.epoch if epoch is None else epoch,
        key.id,
        key.directory_id,
        Endpoints({LISTENER: cluster.endpoint_of(key.id)}) if listeners is None else listeners,
        VersionRange(0, 1) if kraft_versions is None else kraft_versions,
    )
    return await ask(cluster, node, UPDATE_RAFT_VOTER, request)


async def upgrade(
    cluster: Cluster,
    node: Node,
    level: int = 1,
    *,
    feature: str = "kraft.version",
    validate_only: bool = False,
    timeout_ms: int = 5000,
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest((FeatureUpdate(feature, level),), timeout_ms, validate_only)
    return await ask(cluster, node, UPDATE_FEATURES, request)


class Asked:
    """A request on its way: `answer` is there once it is answered."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.answered = trio.Event()

    async def wait(self) -> Any:
        await self.answered.wait()
        return self.answer


def beside(nursery: trio.Nursery, ask: Any, *arguments: Any, **settings: Any) -> Asked:
    """Ask in a task of its own."""
    asked = Asked()

    async def run() -> None:
        asked.answer = await ask(*arguments, **settings)
        asked.answered.set()

    nursery.start_soon(run)
    return asked


async def until_asked(seconds: float = 0.1) -> None:
    """Let what has been asked for next to reach its leader, and the leader do all that it can do at once."""
    await trio.sleep(seconds)


async def elected(cluster: Cluster) -> Node:
    """A leader, in the very step in which it becomes one: nothing of its epoch is anywhere else."""
    found: list[Node] = []

    async def watch(node: Node) -> None:
        await node.election.view.wait_for(lambda view: isinstance(view.role, Leader))
        found.append(node)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for node in cluster.nodes.values():
            nursery.start_soon(watch, node)
    return found[0]


@contextmanager
def held(cluster: Cluster, leader: Node, *follower_ids: int) -> Iterator[None]:
    """What these send to the leader, the other voters by default, waits until the block is left: they acknowledge
    nothing.  To be left before anybody's timeout."""
    hosts = [cluster.machines[id].host for id in follower_ids or leader.view.voters.ids if id != leader.key.id]
    leader_host = cluster.machines[leader.key.id].host
    for host in hosts:
        cluster.network.clog(host, leader_host)
    try:
        yield
    finally:
        for host in hosts:
            cluster.network.unclog(host, leader_host)


@asynccontextmanager
async def listening(cluster: Cluster, endpoint: Endpoint, serve: Any) -> AsyncIterator[None]:
    """`serve` gets each connection to that endpoint, on a host that is no machine's."""
    listener = await cluster.network.seen_from(endpoint.host).listen(endpoint)

    async def accept() -> None:
        while True:
            nursery.start_soon(serve, await listener.accept())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        yield
        nursery.cancel_scope.cancel()


def answering_versions(
    error: ErrorCode = ErrorCode.none, kraft_versions: VersionRange | None = None
) -> Callable[[trio.abc.Stream], Awaitable[None]]:
    """For `listening`: a node that answers only ApiVersions."""
    features = () if kraft_versions is None else (SupportedFeature(KRAFT_VERSION, *attrs.astuple(kraft_versions)),)
    response = ApiVersionsResponse(error=error, apis=advertised_ranges(), supported_features=features)

    async def answer(stream: trio.abc.Stream) -> None:
        reader = FrameReader(stream, 2**20)
        with contextlib.suppress(trio.BrokenResourceError):
            while (frame := await reader.read()) is not None:
                header, _ = decode_request(frame)
                await stream.send_all(encode_response(API_VERSIONS, header.version, header.correlation_id, response))

    return answer


def voters_everywhere(cluster: Cluster, *ids: int) -> bool:
    """Whether all nodes that run have these voters in force."""
    return all(node.log.voters.voters.ids == ids for node in cluster.nodes.values())


def observers_of(leader: Node) -> list[ReplicaKey]:
    """The replicas outside the voter set that have fetched from the leader."""
    assert leader.election.leading is not None
    return sorted(leader.election.leading.progress.observers(leader.log.voters.voters))
