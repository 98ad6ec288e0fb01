"""A quorum of scripted nodes on a simulated network: answers as real ones do, and misbehaves where a test says so."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import attrs
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.simulated_network import SimulatedNetwork
from kraft_trio.storage.batches.batch import encode_control_batch, patch_base_offset_and_epoch, peek_header
from kraft_trio.storage.batches.control_records import LeaderChange
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    API_VERSIONS,
    APIS,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    FETCH,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    REMOVE_RAFT_VOTER,
    advertised_ranges,
)
from kraft_trio.wire.apis.api_versions import ApiVersionsResponse
from kraft_trio.wire.apis.describe_cluster import CONTROLLERS, DescribeClusterResponse
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumResponse, QuorumReplica
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchResponse
from kraft_trio.wire.apis.init_producer_id import InitProducerIdResponse
from kraft_trio.wire.apis.metadata import Broker, MetadataRequest, MetadataResponse, PartitionMetadata, TopicMetadata
from kraft_trio.wire.apis.produce import ProducePartitionResponse, ProduceResponse
from kraft_trio.wire.codec import decode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.network import Network

TOPIC = "events"
TOPIC_ID = UUID(int=77)
CLUSTER_ID = "scripted"
CLIENT = "client"
"""The host that it is on."""


class CutError(Exception):
    """Close the connection instead of answering."""


Fault = Callable[[], Awaitable[None]] | ErrorCode
"""Instead of an answer: something to do (and then to answer as usual), or an error."""


async def cut() -> None:
    raise CutError


async def hang() -> None:
    await trio.sleep_forever()


def endpoint_of(node_id: int) -> Endpoint:
    return Endpoint(f"node-{node_id}", 9093)


def _network_without_latency() -> SimulatedNetwork:
    network = SimulatedNetwork(random.Random(0))
    network.set_default_link(latency=Latency.constant(0.0))
    return network


@attrs.define
class ScriptedQuorum:
    """`faults` are met one by one by Produce before it appends, `late_faults` after; `leader_id` may be changed."""

    node_ids: tuple[int, ...] = (1, 2, 3)
    leader_id: int | None = 1
    leader_epoch: int = 5
    network: SimulatedNetwork = attrs.field(factory=_network_without_latency)
    faults: deque[Fault | None] = attrs.field(factory=deque)
    late_faults: deque[Fault | None] = attrs.field(factory=deque)
    fetch_faults: deque[Fault | None] = attrs.field(factory=deque)
    changes: deque[ErrorCode] = attrs.field(factory=deque)
    """What the leader answers to one change of the voters after the other."""
    resigns_after_change: bool = False
    down: set[int] = attrs.field(factory=set)
    """Nodes that nobody reaches from the beginning."""
    unserved: set[int] = attrs.field(factory=set)
    """Keys of APIs that the nodes do not have."""
    refusals_tell_zeros: bool = False
    """As those of Kafka's controllers do: who does not lead describes a leader 0 of epoch 0 next to the error."""
    unregistered: set[int] = attrs.field(factory=set)
    """Nodes that no answer to DescribeCluster has."""
    topic_name: str = TOPIC
    users_topic: str | None = None
    """The topic that Metadata has instead of the quorum's, as a broker of Kafka's tells the topics of its users."""
    log_start_offset: int = 0
    batches: list[bytes] = attrs.field(factory=list)
    end_offset: int = 0
    asked: list[tuple[int, str]] = attrs.field(factory=list)
    """Node id and API name of every request but ApiVersions."""
    producer_ids: int = 0
    open_connections: int = 0
    _seen: dict[tuple[int, int, int], int] = attrs.field(factory=dict)
    _grown: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Network]:
        """The network as the client sees it; the nodes run until the block is left."""
        async with trio.open_nursery() as nursery:
            for node_id in self.node_ids:
                endpoint = endpoint_of(node_id)
                nursery.start_soon(self._serve, node_id, await self.network.seen_from(endpoint.host).listen(endpoint))
            for node_id in sorted(self.down):
                self.take_down(node_id)
            yield self.network.seen_from(CLIENT)
            nursery.cancel_scope.cancel()

    def take_down(self, node_id: int) -> None:
        """From now on connections to that node are refused; those that there are end."""
        self.network.isolate(endpoint_of(node_id).host, silent=False)

    @property
    def bootstrap(self) -> list[Endpoint]:
        return [endpoint_of(id) for id in self.node_ids]

    def append_control(self) -> None:
        """A batch that no consumer is shown."""
        self._append(bytearray(encode_control_batch([LeaderChange(1, (1,), (1,))], timestamp_ms=0)))

    async def _serve(self, node_id: int, listener: Any) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._serve_connection, node_id, await listener.accept())

    async def _serve_connection(self, node_id: int, stream: trio.abc.Stream) -> None:
        reader = FrameReader(stream, 2**24)
        self.open_connections += 1
        try:
            while (frame := await reader.read()) is not None:
                header, request = decode_request(frame)
                response = await self._answer(node_id, header.api, request)
                await stream.send_all(encode_response(header.api, header.version, header.correlation_id, response))
        except (CutError, NetworkError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.open_connections -= 1
            await trio.aclose_forcefully(stream)

    async def _answer(self, node_id: int, api: Any, request: Any) -> Any:
        if api is not API_VERSIONS:
            self.asked.append((node_id, api.name))
        is_leader = node_id == self.leader_id
        match api.key:
            case API_VERSIONS.key:
                return ApiVersionsResponse(apis=tuple(r for r in advertised_ranges() if r.key not in self.unserved))
            case METADATA.key:
                return self._metadata(request)
            case DESCRIBE_CLUSTER.key:
                assert request.endpoint_type == CONTROLLERS
                metadata = self._metadata(MetadataRequest())
                brokers = tuple(broker for broker in metadata.brokers if broker.id not in self.unregistered)
                return DescribeClusterResponse(
                    brokers=brokers,
                    cluster_id=CLUSTER_ID,
                    controller_id=metadata.controller_id,
                    endpoint_type=CONTROLLERS,
                )
            case DESCRIBE_QUORUM.key:
                return self._describe(request, is_leader)
            case INIT_PRODUCER_ID.key:
                if not is_leader:
                    return InitProducerIdResponse(error=ErrorCode.not_leader_or_follower)
                self.producer_ids += 1
                return InitProducerIdResponse(producer_id=self.producer_ids, producer_epoch=0)
            case PRODUCE.key:
                (partition,) = request.partitions
                answer = await self._produce(partition.records, is_leader)
                return ProduceResponse((attrs.evolve(answer, topic_name=partition.topic_name, topic_id=TOPIC_ID),))
            case ADD_RAFT_VOTER.key | REMOVE_RAFT_VOTER.key:
                assert is_leader, f"{api.name} was sent to node {node_id}, which does not lead"
                if self.resigns_after_change:
                    self.leader_id = None
                return api.error_response(self.changes.popleft(), "as scripted")
            case FETCH.key:
                (partition,) = request.partitions
                answer = await self._fetch(partition, is_leader, request.max_wait_ms)
                leaders = () if answer.leader_id < 0 else ((answer.leader_id, endpoint_of(answer.leader_id)),)
                return FetchResponse(partitions=(answer,), node_endpoints=leaders)
        raise AssertionError(f"not scripted: {APIS[api.key]}")

    def _metadata(self, request: Any) -> MetadataResponse:
        leader_id = -1 if self.leader_id is None else self.leader_id
        partition = PartitionMetadata(0, leader_id=leader_id, leader_epoch=self.leader_epoch)
        told = self.users_topic or self.topic_name
        names = [told] if request.topics is None else [topic.name for topic in request.topics]
        topics = [
            TopicMetadata(name, TOPIC_ID, partitions=(partition,))
            if name == told
            else TopicMetadata(name, error=ErrorCode.unknown_topic_or_partition)
            for name in names
        ]
        brokers = tuple(Broker(id, endpoint_of(id)) for id in self.node_ids)
        return MetadataResponse(brokers, CLUSTER_ID, leader_id, tuple(topics))

    def _describe(self, request: Any, is_leader: bool) -> DescribeQuorumResponse:
        if request.topic != self.topic_name:
            return DescribeQuorumResponse.refused(request, ErrorCode.unknown_topic_or_partition)
        if not is_leader:
            refused = DescribeQuorumResponse.refused(request, ErrorCode.not_leader_or_follower)
            return attrs.evolve(refused, leader_id=0, leader_epoch=0) if self.refusals_tell_zeros else refused
        voters = tuple(QuorumReplica(ReplicaKey(id, UUID(int=100 + id)), 10 - id, 1000, 990) for id in self.node_ids)
        return DescribeQuorumResponse.described(
            request,
            leader_id=self.leader_id or -1,
            leader_epoch=self.leader_epoch,
            high_watermark=8,
            voters=voters,
            observers=(QuorumReplica(ReplicaKey(9, UUID(int=109)), -1),),
            nodes=[Voter(voter.key, Endpoints({"CONTROLLER": endpoint_of(voter.key.id)})) for voter in voters],
        )

    async def _produce(self, records: bytes, is_leader: bool) -> ProducePartitionResponse:
        if (error := await self._meet(self.faults)) is not None:
            return ProducePartitionResponse.failed(error, "as scripted")
        if not is_leader:
            return ProducePartitionResponse.failed(ErrorCode.not_leader_or_follower)
        header = peek_header(records)
        identity = (header.producer_id, header.producer_epoch, header.base_sequence)
        if identity not in self._seen:
            self._seen[identity] = self.end_offset
            self._append(bytearray(records))
        if (error := await self._meet(self.late_faults)) is not None:
            return ProducePartitionResponse.failed(error, "as scripted")
        return ProducePartitionResponse(base_offset=self._seen[identity])

    def _append(self, batch: bytearray) -> None:
        patch_base_offset_and_epoch(batch, 0, self.end_offset, self.leader_epoch)
        self.batches.append(bytes(batch))
        self.end_offset = peek_header(batch).next_offset
        self._grown.unpark_all()

    async def _fetch(self, partition: Any, is_leader: bool, max_wait_ms: int) -> FetchPartitionResponse:
        answer = FetchPartitionResponse(
            partition.topic_name,
            partition.topic_id,
            0,
            high_watermark=self.end_offset,
            log_start_offset=self.log_start_offset,
        )
        if (error := await self._meet(self.fetch_faults)) is not None:
            return attrs.evolve(answer, error=error)
        if not is_leader:
            leader_id = -1 if self.leader_id is None else self.leader_id
            error = ErrorCode.not_leader_or_follower
            return attrs.evolve(answer, error=error, leader_id=leader_id, leader_epoch=self.leader_epoch)
        if not self.log_start_offset <= partition.fetch_offset <= self.end_offset:
            return attrs.evolve(answer, error=ErrorCode.offset_out_of_range)
        with trio.move_on_after(max_wait_ms / 1000):
            while partition.fetch_offset >= self.end_offset:
                await self._grown.park()
        wanted = [batch for batch in self.batches if peek_header(batch).next_offset > partition.fetch_offset]
        # The second batch is cut, as a size limit would.
        return attrs.evolve(answer, records=b"".join([*wanted[:1], *(batch[:-1] for batch in wanted[1:2])]))

    @staticmethod
    async def _meet(faults: deque[Fault | None]) -> ErrorCode | None:
        fault = faults.popleft() if faults else None
        if fault is None or isinstance(fault, ErrorCode):
            return fault
        await fault()
        return None
