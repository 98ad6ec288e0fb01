"""Asking a quorum about itself: the leader is found from any node, and where there is none, each node says its view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import attrs
import trio

from kraft_trio.client.connecting import ask, drop, open_connection
from kraft_trio.client.quorum_description import NodeView, NoLeader, QuorumDescription, ReplicaState
from kraft_trio.client.voter_change import VoterChangeError
from kraft_trio.errors import NetworkError, OutcomeUnknownError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    DESCRIBE_QUORUM,
    METADATA,
    REMOVE_RAFT_VOTER,
    UPDATE_FEATURES,
    Api,
)
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse, QuorumReplica
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataResponse
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.apis.update_features import FeatureUpdate, UpdateFeaturesRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network, TcpNetwork

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

DEFAULT_TOPIC: Final = "__cluster_metadata"
_RETRY_MS: Final = 200


@attrs.frozen
class _Answer:
    """What one node said; `leader` is where it says the leader is."""

    view: NodeView
    cluster_id: str | None = None
    leader: Endpoint | None = None
    description: QuorumDescription | None = None


class AdminClient:
    """Administrative questions to a quorum.  Holds no connection between calls: nothing to close."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        client_id: str = "kraft-admin",
        *,
        request_timeout_ms: int = 2000,
        network: Network | None = None,
    ) -> None:
        """`bootstrap` is any nodes of the quorum; `request_timeout_ms` bounds the wait for each single answer.

        Raises ValueError where `bootstrap` is empty.
        """
        if not bootstrap:
            raise ValueError("bootstrap: no endpoint given, at least one expected")
        self._bootstrap = tuple(dict.fromkeys(bootstrap))
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._network = TcpNetwork() if network is None else network

    async def describe_quorum(self, timeout_ms: int = 5000) -> QuorumDescription | NoLeader:
        """The leader's description of the quorum (KIP-595 "DescribeQuorum").

        Asks the bootstrap nodes and whomever they name as leader.  While some node answers but none as leader, tries
        again for `timeout_ms`, as an election may be under way; then, and at once where nobody answers, the result is
        what each node said.
        """
        deadline = trio.current_time() + timeout_ms / 1000
        while True:
            answers = await self._ask_quorum()
            for answer in answers:
                if answer.description is not None:
                    return answer.description
            cluster_id = next((answer.cluster_id for answer in answers if answer.cluster_id is not None), None)
            outcome = NoLeader(cluster_id, tuple(answer.view for answer in answers))
            if outcome.reachable == 0 or trio.current_time() + _RETRY_MS / 1000 > deadline:
                return outcome
            await trio.sleep(_RETRY_MS / 1000)

    async def add_metadata_voter(
        self,
        voter: ReplicaKey,
        listeners: Endpoints,
        *,
        cluster_id: str | None = None,
        timeout_ms: int = 30_000,
        ack_when_committed: bool = True,
    ) -> None:
        """Make a replica a voter (KIP-853 "AddVoter"); returns when that has committed, or been appended.

        The leader waits, `timeout_ms` at most, for earlier changes and for the replica to catch up.  Raises
        VoterChangeError, NetworkError where no leader could be asked, OutcomeUnknownError where none answered.
        """
        request = AddRaftVoterRequest(
            cluster_id, timeout_ms, voter.id, voter.directory_id, listeners, ack_when_committed
        )
        response = await self._change(f"add voter {voter}", ADD_RAFT_VOTER, request, timeout_ms)
        _require_done(f"add voter {voter}", response.error, response.error_message)

    async def remove_metadata_voter(
        self, voter: ReplicaKey, *, cluster_id: str | None = None, timeout_ms: int = 30_000
    ) -> None:
        """Make exactly that replica no voter any more (KIP-853 "RemoveVoter"); returns when that has committed.

        Raises what `add_metadata_voter` does.
        """
        request = RemoveRaftVoterRequest(cluster_id, voter.id, voter.directory_id)
        response = await self._change(f"remove voter {voter}", REMOVE_RAFT_VOTER, request, timeout_ms)
        _require_done(f"remove voter {voter}", response.error, response.error_message)

    async def update_features(
        self, levels: Mapping[str, int], *, validate_only: bool = False, timeout_ms: int = 30_000
    ) -> None:
        """Finalize feature levels; `kraft.version` is the only one here (KIP-853 "UpdateFeatures").

        Raises what `add_metadata_voter` does.
        """
        updates = tuple(FeatureUpdate(name, level) for name, level in levels.items())
        request = UpdateFeaturesRequest(updates, timeout_ms, validate_only)
        response = await self._change("update features", UPDATE_FEATURES, request, timeout_ms)
        failed = next((result for result in response.results if result.error != ErrorCode.none), None)
        error, message = (
            (response.error, response.error_message) if failed is None else (failed.error, failed.error_message)
        )
        _require_done("update features", error, message)

    async def _change(self, what: str, api: Api[RequestT, ResponseT], request: RequestT, timeout_ms: int) -> ResponseT:
        """Put a request to the leader, whoever that is by then; a node that does not lead has done nothing.

        Raises NetworkError where it was never sent, OutcomeUnknownError where it was and no answer came.
        """
        deadline = trio.current_time() + timeout_ms / 1000
        while True:
            answers = await self._ask_quorum()
            leader = next((answer.view.endpoint for answer in answers if answer.description is not None), None)
            if leader is not None:
                connection = await open_connection(self._network, leader, self._client_id, self._request_timeout_ms)
                try:
                    # The leader answers in time; what is added is for the way.
                    return await ask(connection, api, request, timeout_ms + self._request_timeout_ms)
                except NetworkError as error:
                    raise OutcomeUnknownError(f"{what}: sent to {leader}, which did not answer: {error}") from error
                finally:
                    await drop(connection)
            if trio.current_time() + _RETRY_MS / 1000 > deadline:
                said = "; ".join(str(answer.view) for answer in answers)
                raise NetworkError(f"{what}: no leader found in {timeout_ms} ms: {said}")
            await trio.sleep(_RETRY_MS / 1000)

    async def _ask_quorum(self) -> list[_Answer]:
        """The bootstrap nodes' answers, and those of the leaders they name; ends early with that of a leader."""
        answers = await self._ask_all(self._bootstrap)
        if any(answer.description is not None for answer in answers):
            return answers
        named = dict.fromkeys(answer.leader for answer in answers if answer.leader is not None)
        further = [endpoint for endpoint in named if endpoint not in self._bootstrap]
        return [*answers, *await self._ask_all(further)]

    async def _ask_all(self, endpoints: Sequence[Endpoint]) -> list[_Answer]:
        """Ask all of them at once; the answers in the order of the endpoints, without those a leader forestalled."""
        answers: dict[Endpoint, _Answer] = {}

        async def ask_one(endpoint: Endpoint) -> None:
            answers[endpoint] = answer = await self._ask_node(endpoint)
            if answer.description is not None:
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for endpoint in endpoints:
                nursery.start_soon(ask_one, endpoint)
        return [answers[endpoint] for endpoint in endpoints if endpoint in answers]

    async def _ask_node(self, endpoint: Endpoint) -> _Answer:
        try:
            connection = await open_connection(self._network, endpoint, self._client_id, self._request_timeout_ms)
            try:
                metadata = await self._ask_metadata(connection)
                request = DescribeQuorumRequest(_topic_name(metadata))
                response = await ask(connection, DESCRIBE_QUORUM, request, self._request_timeout_ms)
            finally:
                await drop(connection)
        except (NetworkError, UnsupportedVersionError) as error:
            return _Answer(NodeView(endpoint, str(error).removeprefix(f"{endpoint}: ")))
        return _answer_of(endpoint, metadata, response)

    async def _ask_metadata(self, connection: Connection) -> MetadataResponse | None:
        """Cluster id, topic and brokers; None from a node that does not serve Metadata, as Kafka's controllers."""
        try:
            return await ask(connection, METADATA, MetadataRequest(topics=None), self._request_timeout_ms)
        except UnsupportedVersionError:
            return None


def _require_done(what: str, error: ErrorCode, message: str | None) -> None:
    if error != ErrorCode.none:
        raise VoterChangeError(what, error, message)


def _topic_name(metadata: MetadataResponse | None) -> str:
    """The name of the quorum's topic: the one that the node has, Kafka's own where it does not tell."""
    if metadata is not None and len(metadata.topics) == 1 and metadata.topics[0].name:
        return metadata.topics[0].name
    return DEFAULT_TOPIC


def _answer_of(endpoint: Endpoint, metadata: MetadataResponse | None, response: DescribeQuorumResponse) -> _Answer:
    cluster_id = None if metadata is None else metadata.cluster_id
    error = response.error if response.error != ErrorCode.none else response.partition_error
    leader_id = response.leader_id if response.leader_id >= 0 else None
    leader_epoch = response.leader_epoch if response.leader_epoch >= 0 else None
    if error == ErrorCode.none and leader_id is not None and leader_epoch is not None:
        description = _description(cluster_id, response)
        return _Answer(NodeView(endpoint, None, leader_id, leader_epoch), cluster_id, description=description)
    if error not in (ErrorCode.none, ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available):
        message = response.error_message or response.partition_error_message
        return _Answer(NodeView(endpoint, f"answers {error.name}" + (f": {message}" if message else "")), cluster_id)
    leader = None
    if metadata is not None:
        known_id, known_epoch = _leader_in(metadata)
        leader_id = known_id if leader_id is None else leader_id
        leader_epoch = known_epoch if leader_epoch is None else leader_epoch
        leader = next((broker.endpoint for broker in metadata.brokers if broker.id == leader_id), None)
    return _Answer(NodeView(endpoint, None, leader_id, leader_epoch), cluster_id, leader)


def _leader_in(metadata: MetadataResponse) -> tuple[int | None, int | None]:
    """The leader's id and epoch, as far as the partition's metadata tell them."""
    for topic in metadata.topics:
        for partition in topic.partitions:
            leader_id = partition.leader_id if partition.leader_id >= 0 else None
            return leader_id, partition.leader_epoch if partition.leader_epoch >= 0 else None
    return None, None


def _description(cluster_id: str | None, response: DescribeQuorumResponse) -> QuorumDescription:
    return QuorumDescription(
        cluster_id=cluster_id,
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        high_watermark=response.high_watermark,
        voters=tuple(_state(replica) for replica in response.voters),
        observers=tuple(_state(replica) for replica in response.observers),
        endpoints={node.id: node.endpoints for node in response.nodes},
    )


def _state(replica: QuorumReplica) -> ReplicaState:
    return ReplicaState(
        replica.key, replica.log_end_offset, replica.last_fetch_timestamp_ms, replica.last_caught_up_timestamp_ms
    )
