"""Routes each request to the actor that serves it.

The router checks cluster id, topic and partition first.  For requests that only the leader may answer, it then checks
epoch and leadership (docs/reference/kafka.md#order-of-checks).  A request that fails here changes nothing (invariant
NothingFromStrangers).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import attrs

from kraft_trio.actors.application.command_admission import CommandAdmission
from kraft_trio.actors.application.record_checker import RecordChecker
from kraft_trio.actors.context.epoch_context import NodeContext, TellElection
from kraft_trio.actors.membership.voter_gossip import VoterGossip
from kraft_trio.actors.network.client_requests import ClientRequests
from kraft_trio.actors.network.cluster_requests import ClusterRequests
from kraft_trio.actors.network.leader_requests import LeaderRequests
from kraft_trio.actors.network.list_offsets_requests import ListOffsetsRequests
from kraft_trio.actors.network.listener_admission import REPLICAS_ONLY, ListenerAdmission
from kraft_trio.actors.network.log_directory_requests import LogDirectoryRequests
from kraft_trio.actors.network.reassignment_requests import ReassignmentRequests
from kraft_trio.actors.network.replica_snapshot_requests import ReplicaSnapshotRequests, TakeSnapshot, TellStatus
from kraft_trio.actors.network.voter_change_requests import FORWARDER_CLIENT_ID, VoterChangeRequests
from kraft_trio.actors.peers.answers import Answer, Awaited, Forwarded, Ready
from kraft_trio.actors.peers.change_forwarding import ChangeForwarding
from kraft_trio.actors.peers.kafka_controllers import CONTROLLERS_TOPIC
from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.actors.waiting.published import Published
from kraft_trio.channels import Reply, deliver
from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.messages import (
    Asker,
    BeginQuorumEpochReceived,
    DescribeQuorumReceived,
    EndQuorumEpochReceived,
    ProducerIdRequested,
    QuorumView,
    ReadIndexRequested,
    VoteReceived,
)
from kraft_trio.protocol.read_barrier import ReadIndex
from kraft_trio.protocol.voter_set import KRAFT_VERSION, SUPPORTED_KRAFT_VERSIONS
from kraft_trio.security.access_control import AccessControl
from kraft_trio.wire.api import (
    ALTER_PARTITION_REASSIGNMENTS,
    API_VERSIONS,
    CREATE_TOPICS,
    DESCRIBE_QUORUM,
    DISCOVER_VOTERS,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_PARTITION_REASSIGNMENTS,
    Api,
    advertised_ranges,
)
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft_trio.wire.apis.api_versions import (
    ApiRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
)
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft_trio.wire.apis.controllers_only import CONTROLLERS_ONLY
from kraft_trio.wire.apis.create_topics import CreateTopicsRequest
from kraft_trio.wire.apis.describe_cluster import DescribeClusterRequest
from kraft_trio.wire.apis.describe_log_dirs import DescribeLogDirsRequest
from kraft_trio.wire.apis.describe_quorum import CLUSTER_METADATA, DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft_trio.wire.apis.fetch import FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.find_coordinator import FindCoordinatorRequest
from kraft_trio.wire.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft_trio.wire.apis.list_offsets import ListOffsetsRequest
from kraft_trio.wire.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraft_trio.wire.apis.metadata import MetadataRequest
from kraft_trio.wire.apis.produce import ProduceRequest
from kraft_trio.wire.apis.read_index import ReadIndexRequest, ReadIndexResponse
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kraft_trio.wire.apis.transfer_leadership import TransferLeadershipRequest
from kraft_trio.wire.apis.update_features import UpdateFeaturesRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from kraft_trio.wire.codec import RequestHeader, UnsupportedRequestError
from kraft_trio.wire.error_codes import ErrorCode

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

KRAFT_VERSIONS = SupportedFeature(KRAFT_VERSION, SUPPORTED_KRAFT_VERSIONS.minimum, SUPPORTED_KRAFT_VERSIONS.maximum)
MAX_SOFTWARE_CHARACTERS: Final = 256
NOT_CONTROLLER_MESSAGE: Final = "this node is a witness, which never is the active controller"
OF_THE_ACTIVE_CONTROLLER: Final = frozenset(
    api.key
    for api in (CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS, ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS)
)
"""What only the active controller answers among Apache Kafka's controllers, of the APIs that nodes serve."""
NOT_NOW = "this connection needs no authentication, or has it already"


class RequestRouter:
    """Puts each request into the mailbox of its actor, in the order of the calls."""

    def __init__(
        self,
        context: NodeContext,
        view: Published[QuorumView],
        tell_election: TellElection,
        forwarder: NetworkClient,
        take_snapshot: TakeSnapshot | None,
        tell_status: TellStatus,
        checker: RecordChecker,
        gossip: VoterGossip | None,
        access: AccessControl | None,
        commands: CommandAdmission | None = None,
    ) -> None:
        """`forwarder` passes clients' requests on to the leader; its client id is FORWARDER_CLIENT_ID."""
        self._access = access
        self._cluster_id = context.cluster_id
        self._config = context.config
        self._log = context.log
        self._kafkas_controllers = context.kafkas_controllers
        self._view = view
        self._tell_election = tell_election
        self._forwarder = forwarder
        self._admission = ListenerAdmission(context.config.controller_listener_names)
        self._leader = LeaderRequests(context, view)
        self._replica_snapshots = ReplicaSnapshotRequests(context, take_snapshot, tell_status)
        forwarding = ChangeForwarding(forwarder)
        self._voter_changes = VoterChangeRequests(context, view, forwarding)
        self._reassignments = ReassignmentRequests(context, view, forwarding)
        self._list_offsets = ListOffsetsRequests(context, view)
        self._clients = ClientRequests(context, view, checker, commands)
        self._cluster = ClusterRequests(context, view, forwarder)
        self._log_directories = LogDirectoryRequests(context)
        self._gossip = gossip
        self._stands_in = context.config.witness and context.config.topic_name == CONTROLLERS_TOPIC
        self._not_served = frozenset({DISCOVER_VOTERS.key} if gossip is None else ())

    async def route(
        self, header: RequestHeader, listener_name: str, request: Any, *, asker: Asker | None = None
    ) -> Answer:
        """Route the request, and wait while the actor's mailbox is full.  `asker` is its connection.

        Raises ProtocolError if the listener does not take such requests, UnsupportedVersionError if nothing serves it.
        """
        self._admission.check(listener_name, request)
        if self._config.witness and header.api.key in OF_THE_ACTIVE_CONTROLLER and self._kafkas_controllers():
            return Ready(header.api.error_response(ErrorCode.not_controller, NOT_CONTROLLER_MESSAGE))
        if self._access is not None and asker is not None:
            refusal = self._access.refusal(header, listener_name, request, asker.principal, asker.peer_host)
            if refusal is not None and isinstance(request, MetadataRequest):
                # Clients take no answer that names no broker.
                answer = await self._cluster.metadata(request, listener_name)
                return Ready(attrs.evolve(answer.response(), topics=refusal[0].topics))
            if refusal is not None:
                return Ready(refusal[0])
        address = "" if asker is None else asker.peer_host
        principal = None if asker is None or self._access is None else asker.principal
        match request:
            case FetchRequest():
                return await self._leader.fetch(request, header.version, listener_name, asker)
            case ProduceRequest():
                return await self._clients.produce(request, header.version, listener_name, address, principal)
            case VoteRequest() | BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                return await self._route_to_election(header.api, request, listener_name)
            case DescribeQuorumRequest():
                return await self._describe_quorum(header, request)
            case (
                AddRaftVoterRequest()
                | RemoveRaftVoterRequest()
                | UpdateRaftVoterRequest()
                | UpdateFeaturesRequest()
                | TransferLeadershipRequest()
            ):
                return await self._voter_changes.route(request, listener_name, header.client_id)
            case AlterPartitionReassignmentsRequest():
                return await self._reassignments.alter(request, listener_name)
            case ListPartitionReassignmentsRequest():
                return self._reassignments.list(request, listener_name)
            case FetchSnapshotRequest():
                return await self._leader.fetch_snapshot(request, listener_name)
            case DiscoverVotersRequest() if self._gossip is not None:
                return Ready(await self._gossip.answer(request))
            case ReadIndexRequest():
                return await self._read_index(request)
            case ReplicaSnapshotsRequest():
                return self._replica_snapshots.route(request)
            case ApiVersionsRequest():
                if asker is not None:
                    # A connection keeps it for as long as it is open, outside the memory of requests.
                    asker.software = request.client_software_name[:MAX_SOFTWARE_CHARACTERS]
                return Ready(self.api_versions(listener_name))
            case MetadataRequest():
                return await self._cluster.metadata(request, listener_name)
            case DescribeClusterRequest():
                return await self._cluster.describe_cluster(request, listener_name)
            case DescribeLogDirsRequest():
                return Ready(self._log_directories.answer(request))
            case ListOffsetsRequest():
                return await self._list_offsets.route(request, address)
            case InitProducerIdRequest():
                return await self._init_producer_id(header, request)
            case FindCoordinatorRequest():
                return Ready(self._clients.find_coordinator(request))
            case CreateTopicsRequest():
                return Ready(self._clients.create_topics(request))
            case IncrementalAlterConfigsRequest():
                return Ready(self._clients.alter_configs(request))
            case SaslHandshakeRequest():
                return Ready(SaslHandshakeResponse(ErrorCode.illegal_sasl_state))
            case SaslAuthenticateRequest():
                return Ready(SaslAuthenticateResponse(ErrorCode.illegal_sasl_state, NOT_NOW))
            case _:
                raise UnsupportedVersionError(f"{header.api.name} is not served")

    def trusts(self, asker: Asker) -> bool:
        """Whether the rules let this connection's peer be a replica.  Without an authorizer, anybody may be one."""
        return self._access is None or self._access.is_replica(asker.principal, asker.peer_host)

    def refuse_version(self, error: UnsupportedVersionError, listener_name: str) -> tuple[RequestHeader, Answer]:
        """The answer to a request for the active controller of Apache Kafka, which this node as a witness never is.

        Also the answer to an ApiVersions request that is too new, readable by any client (KIP-511).  Raises `error` for
        any other request.
        """
        if isinstance(error, UnsupportedRequestError) and self._stands_in_on(listener_name):
            api = CONTROLLERS_ONLY.get(error.api_key)
            if api is not None and api.supports(error.version):
                header = RequestHeader(api, error.version, error.correlation_id)
                return header, Ready(api.error_response(ErrorCode.not_controller, NOT_CONTROLLER_MESSAGE))
        header, response = self.too_new(error)
        return header, Ready(response)

    def _stands_in_on(self, listener_name: str) -> bool:
        """Whether brokers and controllers of Apache Kafka may take this node for their active controller there."""
        return self._stands_in and self._admission.is_for_replicas(listener_name)

    def too_new(self, error: UnsupportedVersionError) -> tuple[RequestHeader, ApiVersionsResponse]:
        """Like `refuse_version`, without an actor's answer around it."""
        if not isinstance(error, UnsupportedRequestError) or error.api_key != API_VERSIONS.key:
            raise error
        response = ApiVersionsResponse(error=ErrorCode.unsupported_version, apis=advertised_ranges())
        return RequestHeader(API_VERSIONS, 0, error.correlation_id), response

    def api_versions(self, listener_name: str) -> ApiVersionsResponse:
        """What that listener serves."""
        finalized = self._finalized_kraft_version()
        apis = advertised_ranges(self._not_served if self._admission.is_for_replicas(listener_name) else REPLICAS_ONLY)
        if self._stands_in_on(listener_name):
            apis += tuple(ApiRange(key, api.min_version, api.max_version) for key, api in CONTROLLERS_ONLY.items())
        return ApiVersionsResponse(
            apis=apis,
            # A leader adds no voter that does not support kraft.version.
            supported_features=(KRAFT_VERSIONS,) if self._may_vote() else (),
            finalized_features=(FinalizedFeature(KRAFT_VERSIONS.name, finalized),) if finalized else (),
            finalized_features_epoch=-1 if finalized is None else self._view.value.epoch,
        )

    def _may_vote(self) -> bool:
        """False for an observer of Apache Kafka's controllers that is no witness (`actors.kafka.controllers_guard`)."""
        return self._config.witness or not self._kafkas_controllers()

    def _finalized_kraft_version(self) -> int | None:
        """The committed kraft.version (KIP-853 "KRaftVersionRecord"); None while this node does not know it."""
        high_watermark = self._log.high_watermark
        return None if high_watermark is None else self._log.voters.kraft_version_at(high_watermark - 1)

    async def _route_to_election(
        self,
        api: Api[Any, Any],
        request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest,
        listener_name: str,
    ) -> Answer:
        error = self._identity_error(request.cluster_id, request.topic, request.partition)
        if error is not None:
            return Ready(api.error_response(error, None))
        match request:
            case VoteRequest():
                vote: Reply[VoteResponse] = Reply()
                await self._tell_election(VoteReceived(request, vote, listener_name))
                return Awaited((vote,), _only)
            case BeginQuorumEpochRequest():
                begin: Reply[BeginQuorumEpochResponse] = Reply()
                await self._tell_election(BeginQuorumEpochReceived(request, begin, listener_name))
                return Awaited((begin,), _only)
            case EndQuorumEpochRequest():
                end: Reply[EndQuorumEpochResponse] = Reply()
                await self._tell_election(EndQuorumEpochReceived(request, end, listener_name))
                return Awaited((end,), _only)

    def _identity_error(self, cluster_id: str | None, topic: str, partition: int) -> ErrorCode | None:
        # Every node of a quorum names its cluster, Kafka's too.
        if cluster_id != self._cluster_id:
            return ErrorCode.inconsistent_cluster_id
        if (topic, partition) != (self._config.topic_name, 0):
            return ErrorCode.invalid_request
        return None

    async def _describe_quorum(self, header: RequestHeader, request: DescribeQuorumRequest) -> Answer:
        if not request.topic:
            return Ready(DescribeQuorumResponse(ErrorCode.invalid_request, "expected one topic with one partition"))
        # Kafka's tools ask about that topic, whatever this one is called.
        if request.topic not in (self._config.topic_name, CLUSTER_METADATA) or request.partition != 0:
            return Ready(DescribeQuorumResponse.refused(request, ErrorCode.unknown_topic_or_partition))
        view = self._view.value
        reply: Reply[DescribeQuorumResponse] = Reply()
        if await deliver(view.leader_mailbox, DescribeQuorumReceived(request, reply)):
            return Awaited((reply,), _only)
        refusal = DescribeQuorumResponse.refused(
            request,
            ErrorCode.not_leader_or_follower,
            leader_id=-1 if view.leader_id is None else view.leader_id,
            leader_epoch=view.epoch,
        )
        return self._forward(header, DESCRIBE_QUORUM, request, refusal)

    async def _read_index(self, request: ReadIndexRequest) -> Answer:
        """Ask this node's LeaderReplication; only the leader can tell."""
        if request.cluster_id != self._cluster_id:
            return Ready(ReadIndexResponse(ErrorCode.inconsistent_cluster_id))
        reply: Reply[ReadIndex | None] = Reply()
        if not await deliver(self._view.value.leader_mailbox, ReadIndexRequested(reply)):
            return Ready(self._read_index_response(None))
        return Awaited((reply,), lambda indexes: self._read_index_response(indexes[0]))

    def _read_index_response(self, read_index: ReadIndex | None) -> ReadIndexResponse:
        view = self._view.value
        leader_id = -1 if view.leader_id is None else view.leader_id
        if read_index is None:
            return ReadIndexResponse(ErrorCode.not_leader_or_follower, leader_id, view.epoch)
        return ReadIndexResponse(ErrorCode.none, leader_id, view.epoch, read_index.offset, read_index.is_by_lease)

    async def _init_producer_id(self, header: RequestHeader, request: InitProducerIdRequest) -> Answer:
        """Give an idempotent producer a new id, also one that has lost its sequence."""
        if request.transactional_id is not None:
            return Ready(InitProducerIdResponse(error=ErrorCode.transactional_id_authorization_failed))
        reply: Reply[int | None] = Reply()
        if await deliver(self._view.value.leader_mailbox, ProducerIdRequested(reply)):
            return Awaited((reply,), lambda ids: _producer_id_response(ids[0]))
        return self._forward(header, INIT_PRODUCER_ID, request, _producer_id_response(None))

    def _forward(
        self, header: RequestHeader, api: Api[RequestT, ResponseT], request: RequestT, refusal: ResponseT
    ) -> Answer:
        """Pass a client's request on to the leader, unless it has been passed on before."""
        leader = self._view.value.leader_endpoint(self._config.controller_listener_name)
        if leader is None or header.client_id == FORWARDER_CLIENT_ID:
            return Ready(refusal)
        return Forwarded(self._forwarder, leader, api, request, self._config.request_timeout_ms, refusal)


def _only(responses: Sequence[Any]) -> Any:
    return responses[0]


def _producer_id_response(producer_id: int | None) -> InitProducerIdResponse:
    if producer_id is None:
        return InitProducerIdResponse(error=ErrorCode.not_leader_or_follower)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
