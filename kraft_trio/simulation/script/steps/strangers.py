"""Steps of strangers and of older builds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from struct import pack
from typing import Any, Final
from uuid import UUID

import attrs
import trio

from kraft_trio.config import NodeConfig
from kraft_trio.environment import Environment
from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.protocol.gossip import MAX_BOOT, Advertisement
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey
from kraft_trio.running import open_node
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.deterministic import process
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.simulation.script.parts import Duration, Node, Nodes
from kraft_trio.simulation.script.step import step
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.simulation.world import EPOCH_MS
from kraft_trio.storage.directory.directory import format_directory, random_directory_id
from kraft_trio.storage.disk.record_thread import InLoop
from kraft_trio.wire.api import DISCOVER_VOTERS, FETCH, VOTE, Api
from kraft_trio.wire.apis.begin_quorum_epoch import BEGIN_QUORUM_EPOCH, BeginQuorumEpochRequest
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest
from kraft_trio.wire.apis.end_quorum_epoch import END_QUORUM_EPOCH, EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

FOREIGN_CLUSTER_ID: Final = "another-cluster-000000"
WITHIN_S: Final = 1.0
GARBAGE_WITHIN_S: Final = 0.1
"""How long a node has to answer garbage, which may look like the beginning of a longer frame."""
_STRANGER: Final = ReplicaKey(1_000_000, UUID(int=0xBAD))
_EPOCHS_AHEAD: Final = 100
_LOG_END: Final = 10**9
_NOWHERE: Final = Endpoint("nowhere", 9)
_BOOTS: Final = (1, 10, MAX_BOOT - 1, MAX_BOOT)
"""Boot numbers of false advertisements.  Most are above those that voters reach."""


@step
async def intrude(cluster: Cluster, node: Node) -> None:
    """Sends a node another cluster's requests in a later epoch, then garbage."""
    intruded = cluster.machines[node].node
    if intruded is None:
        return
    with trio.move_on_after(WITHIN_S):
        for api, request in _requests(intruded.config, intruded.view.epoch + _EPOCHS_AHEAD):
            answer = await _ask(cluster, node, api, request)
            cluster.trace.record("stranger", node=node, cause=answer, api=api.name)
        for what, data in _garbage(cluster.random(f"rubbish at {cluster.now_s:.6f} s")):
            ended = await _send(cluster, node, data)
            cluster.trace.record("stranger", node=node, cause=ended, api=what)


def _garbage(source: random.Random) -> Iterator[tuple[str, bytes]]:
    """Bytes that a node must refuse, without any change of its state."""
    yield "noise", source.randbytes(source.randrange(1, 200))
    yield "frame without end", pack(">i", 2**31 - 1) + source.randbytes(20)
    yield "frame of negative length", pack(">i", -1)
    body = pack(">hhih", VOTE.key, VOTE.max_version, 1, -1) + b"\0" + source.randbytes(source.randrange(60))
    yield "unreadable vote", pack(">i", len(body)) + body
    unknown = pack(">hhih", 32_000, 0, 1, -1)
    yield "unknown API", pack(">i", len(unknown)) + unknown


async def _send(cluster: Cluster, node_id: int, data: bytes) -> str:
    """Send these bytes over a new connection, and return how it ends."""
    try:
        stream = await cluster.network.seen_from("stranger").connect(cluster.endpoint_of(node_id))
        async with stream:
            await stream.send_all(data)
            with trio.move_on_after(GARBAGE_WITHIN_S):
                return "answered" if await stream.receive_some() else "closed"
    except (NetworkError, trio.BrokenResourceError) as error:
        return str(error) or "reset"
    return "not answered"


def _requests(config: NodeConfig, epoch: int) -> Iterator[tuple[Api[Any, Any], object]]:
    cluster_id, topic, sender = FOREIGN_CLUSTER_ID, config.topic_name, _STRANGER
    for pre_vote in (True, False):
        yield (
            VOTE,
            VoteRequest(
                cluster_id, -1, topic, 0, sender, epoch, NO_DIRECTORY_ID, _LOG_END, epoch - 1, pre_vote=pre_vote
            ),
        )
    yield BEGIN_QUORUM_EPOCH, BeginQuorumEpochRequest(cluster_id, -1, topic, 0, NO_DIRECTORY_ID, sender.id, epoch)
    yield END_QUORUM_EPOCH, EndQuorumEpochRequest(cluster_id, topic, 0, sender.id, epoch)
    partition = FetchPartition(topic, config.topic_id, 0, 0, 2**20, current_leader_epoch=epoch)
    yield FETCH, FetchRequest(cluster_id, sender.id, max_wait_ms=0, partitions=(partition,))


async def _ask(cluster: Cluster, node_id: int, api: Api[Any, Any], request: object) -> str:
    """The error in the answer, or how the connection ends."""
    try:
        stream = await cluster.network.seen_from("stranger").connect(cluster.endpoint_of(node_id))
        connection = await Connection.negotiated(stream, "stranger", 2**24)
        try:
            response = await connection.request(api, request)
        finally:
            await connection.aclose()
    except (NetworkError, ProtocolError, UnsupportedVersionError) as error:
        return str(error)
    errors = [response.error, getattr(response, "partition_error", ErrorCode.none)]
    errors += [partition.error for partition in getattr(response, "partitions", ())]
    return next((error.name.upper() for error in errors if error != ErrorCode.none), "granted")


@step
async def lie(cluster: Cluster, node: Node, *, about: Node, at: Node | None = None, other_disk: bool = False) -> None:
    """Advertises to a node that a voter listens where another node does, or nowhere; `other-disk` names another disk.

    The boot number is a random one, perhaps the highest.
    """
    listener = cluster.machines[node].node
    if listener is None:
        return
    source = cluster.random(f"lie at {cluster.now_s:.6f} s")
    directory_id = random_directory_id(source) if other_disk else cluster.key_of(about).directory_id
    endpoint = _NOWHERE if at is None else cluster.endpoint_of(at)
    false = Advertisement(
        ReplicaKey(about, directory_id),
        source.choice(_BOOTS),
        source.randint(0, listener.view.epoch + _EPOCHS_AHEAD),
        Endpoints({LISTENER: endpoint}),
    )
    with trio.move_on_after(WITHIN_S):
        request = DiscoverVotersRequest(cluster.cluster_id, (false,))
        answer = await _ask(cluster, node, DISCOVER_VOTERS, request)
        cluster.trace.record("stranger", node=node, cause=answer, api=DISCOVER_VOTERS.name)


@step
async def older(cluster: Cluster, nodes: Nodes) -> None:
    """Makes nodes appear without pre-votes, on new connections."""
    for node in nodes:
        cluster.network.cap_versions(cluster.machines[node].host, {VOTE.key: 1})


@step
async def newer(cluster: Cluster, nodes: Nodes) -> None:
    """Ends `older`, on new connections."""
    for node in nodes:
        cluster.network.uncap_versions(cluster.machines[node].host)


@step
async def twin(cluster: Cluster, node: Node, *, for_us: Duration) -> None:
    """Runs a second process with a node's id, with its own directory."""
    host = f"twin-{node}"
    config = cluster.config_of(node)
    listeners = (
        attrs.evolve(listener, endpoint=Endpoint(host, listener.endpoint.port)) for listener in config.listeners
    )
    config = attrs.evolve(config, listeners=tuple(listeners))
    environment = _environment(cluster, host)
    format_directory(
        environment.disk,
        config.metadata_log_dir,
        cluster_id=cluster.cluster_id,
        node_id=node,
        directory_id=random_directory_id(cluster.random(f"directory-{host}")),
        topic_name=config.topic_name,
        voters=None,
        kraft_version=cluster.setup.kraft_version,
        timestamp_ms=environment.wall_clock_ms(),
    )
    before = process.set(host)
    try:
        async with open_node(config, environment=environment):
            await trio.sleep(for_us / 1e6)
    finally:
        process.reset(before)


def _environment(cluster: Cluster, host: str) -> Environment:
    def wall_clock_ms() -> int:
        return EPOCH_MS + round(cluster.now_s * 1000)

    return Environment(
        has_virtual_time=True,
        network=cluster.network.seen_from(host),
        disk=SimulatedDisk(cluster.random(f"disk-{host}"), now_ms=wall_clock_ms),
        random=cluster.random(host),
        secret_bits=cluster.random(f"secrets-{host}").getrandbits,
        wall_clock_ms=wall_clock_ms,
        off_loop=InLoop(),
    )
