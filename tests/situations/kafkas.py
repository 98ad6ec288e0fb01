"""Controllers of Apache Kafka's, as those who ask them see them.

A node of ours does the work of the quorum.  Each of its answers to the operator is replaced by the answer of a
controller of Kafka 4.4.  Such a controller serves fewer APIs, and tells neither its log nor its voters.  It names who
has registered.  `tests/interop/test_kafka_mixed_explained.py` compares the answers with those of real controllers.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection
from typing import Any, Final

import attrs
import trio

from kraft_trio.node import Node
from kraft_trio.protocol.roles import Leader
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.message import FrameSplitter
from kraft_trio.wire.api import ADD_RAFT_VOTER, ALTER_PARTITION_REASSIGNMENTS, REMOVE_RAFT_VOTER, UPDATE_FEATURES
from kraft_trio.wire.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignmentResult,
)
from kraft_trio.wire.apis.api_versions import ApiRange, ApiVersionsResponse, FinalizedFeature, SupportedFeature
from kraft_trio.wire.apis.describe_cluster import CONTROLLERS, DescribeClusterResponse
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumResponse
from kraft_trio.wire.apis.fetch import FetchRequest, FetchResponse
from kraft_trio.wire.apis.metadata import Broker
from kraft_trio.wire.codec import RequestHeader, decode_request, decode_response, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import ImmediateStream, Listener, Network

METADATA_VERSION: Final = "metadata.version"
_SERVED: Final = """\
1:4-18 17:0-1 18:0-5 19:2-7 20:1-6 29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 36:0-2 37:0-3 38:1-3 39:1-2 40:1-2
41:1-3 43:0-2 44:0-1 45:0-1 46:0-0 49:0-1 50:0-0 51:0-0 52:0-2 53:0-1 54:0-1 55:0-2 56:2-3 57:0-2 58:0-0
59:0-1 60:0-2 62:0-4 63:0-2 64:0-0 67:0-0 70:0-0 73:0-0 80:0-1 81:0-0 82:0-0 94:0-0
"""
SERVED: Final = tuple(ApiRange(*map(int, numbers)) for numbers in re.findall(r"(\d+):(\d+)-(\d+)", _SERVED))
"""The APIs of Kafka 4.4's controllers, each with its versions."""
CHANGES: Final = {
    ADD_RAFT_VOTER.key: ErrorCode.not_leader_or_follower,
    REMOVE_RAFT_VOTER.key: ErrorCode.not_leader_or_follower,
    UPDATE_FEATURES.key: ErrorCode.not_controller,
    ALTER_PARTITION_REASSIGNMENTS.key: ErrorCode.not_controller,
}
"""What a controller that does not lead answers to these; ours pass them on."""
FEATURES: Final = (SupportedFeature("kraft.version", 0, 1), SupportedFeature(METADATA_VERSION, 7, 33))


@attrs.frozen
class Controller:
    """One of them."""

    cluster: Cluster
    id: int
    registered: Collection[int]
    """Who has registered with the controllers."""

    @property
    def node(self) -> Node:
        return self.cluster.nodes[self.id]

    @property
    def lacks_metadata(self) -> bool:
        """Whether it knows of nothing that is committed, which it has to hear of from a leader after each start."""
        return not self.node.log.high_watermark

    def refusal(self, header: RequestHeader, request: Any) -> Any:
        """The answer to what only the leader does, or only ours; None for anything else."""
        error = CHANGES.get(header.api.key)
        if error is not None and not isinstance(self.node.view.role, Leader):
            return header.api.error_response(error, None)
        if isinstance(request, FetchRequest) and request.cluster_id not in (None, self.node.cluster_id):
            return FetchResponse(error=ErrorCode.inconsistent_cluster_id)
        if isinstance(request, AlterPartitionReassignmentsRequest):  # The quorum's is no topic among others.
            unknown = [(one.topic_name, one.partition) for one in request.partitions]
            results = (ReassignmentResult(*one, ErrorCode.unknown_topic_or_partition) for one in unknown)
            return AlterPartitionReassignmentsResponse(results=tuple(results))
        return None

    def instead_of(self, response: Any) -> Any:
        """What it answers where a node of ours answers that."""
        match response:
            case ApiVersionsResponse():
                return self._api_versions(response)
            case DescribeClusterResponse():
                return self._describe_cluster()
            case DescribeQuorumResponse():
                return self._describe_quorum(response)
            case _:
                return response

    def _api_versions(self, ours: ApiVersionsResponse) -> ApiVersionsResponse:
        own = () if self.lacks_metadata else (FinalizedFeature(METADATA_VERSION, 33),)
        return attrs.evolve(
            ours, apis=SERVED, supported_features=FEATURES, finalized_features=(*ours.finalized_features, *own)
        )

    def _describe_cluster(self) -> DescribeClusterResponse:
        """It reads the registrations, and whether they are there at all, from what is committed."""
        if self.lacks_metadata:
            return DescribeClusterResponse(error=ErrorCode.unsupported_version)
        view = self.node.view
        return DescribeClusterResponse(
            brokers=tuple(Broker(id, self._announced(id)) for id in sorted(self.registered)),
            cluster_id=self.node.cluster_id,
            controller_id=-1 if view.leader_id is None else view.leader_id,
            endpoint_type=CONTROLLERS,
        )

    def _announced(self, node_id: int) -> Endpoint:
        """Where a node has said that it listens when it registered."""
        [(_, endpoint)] = self.cluster.config_of(node_id).advertised_endpoints()
        return endpoint

    def _describe_quorum(self, ours: DescribeQuorumResponse) -> DescribeQuorumResponse:
        if not isinstance(self.node.view.role, Leader):
            return attrs.evolve(
                DescribeQuorumResponse(topic=ours.topic, partition_error=ErrorCode.not_leader_or_follower),
                leader_id=0,
                leader_epoch=0,
                high_watermark=0,
            )
        voters = {voter.key.id for voter in ours.voters}
        return attrs.evolve(
            ours,
            nodes=tuple(node for node in ours.nodes if node.id in voters),
            committed_voters=(),
            target_voters=(),
            reassignment_status=None,
        )


@attrs.frozen
class KafkasNetwork:
    """A Network in which the controllers answer as Kafka's do."""

    network: Network
    controllers: dict[str, Controller]
    """By host."""

    async def connect(self, endpoint: Endpoint) -> Any:
        stream = await self.network.connect(endpoint)
        controller = self.controllers.get(endpoint.host)
        return stream if controller is None else _Replacing(stream, controller)

    async def addresses(self, host: str) -> tuple[str, ...]:
        return await self.network.addresses(host)

    async def listen(self, endpoint: Endpoint) -> Listener:
        return await self.network.listen(endpoint)


class _Replacing(trio.abc.Stream):
    """One connection to a controller."""

    def __init__(self, stream: ImmediateStream, controller: Controller) -> None:
        self._stream = stream
        self._controller = controller
        self._requests, self._answers = FrameSplitter(), FrameSplitter()
        self._asked: deque[RequestHeader] = deque()
        self._ready = bytearray()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        for _, frame in self._requests.split(bytes(data)):
            if frame is None:
                continue
            header, request = decode_request(frame[4:])
            refusal = self._controller.refusal(header, request)
            if refusal is None:
                self._asked.append(header)
                await self._stream.send_all(frame)
            else:
                self._answer(header, refusal)

    def _answer(self, header: RequestHeader, response: Any) -> None:
        self._ready += encode_response(header.api, header.version, header.correlation_id, response)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while not self._ready:
            data = await self._stream.receive_some()
            if not data:
                return b""
            for _, frame in self._answers.split(bytes(data)):
                if frame is not None:
                    header = self._asked.popleft()
                    response = decode_response(header.api, header.version, frame[4:])[1]
                    self._answer(header, self._controller.instead_of(response))
        taken = bytes(self._ready[:max_bytes])
        del self._ready[: len(taken)]
        return taken

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()
