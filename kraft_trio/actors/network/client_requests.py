"""The requests of ordinary Kafka clients: Produce, FindCoordinator, CreateTopics, IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Sequence

from kraft_trio.actors.application.command_admission import CommandAdmission
from kraft_trio.actors.application.record_checker import RecordChecker
from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.peers.answers import Answer, Awaited
from kraft_trio.actors.waiting.published import Published
from kraft_trio.channels import Reply, deliver
from kraft_trio.errors import ProtocolError
from kraft_trio.messages import ProduceReceived, QuorumView
from kraft_trio.protocol.producer_owners import ProducerOwners
from kraft_trio.protocol.types import Endpoint
from kraft_trio.storage.batches.batch import check_client_batch, peek_header
from kraft_trio.storage.batches.batch_header import BatchHeader
from kraft_trio.storage.batches.record_check import is_small_and_sound, may_be_honest_about_time
from kraft_trio.storage.batches.record_window import LargeRecordError
from kraft_trio.wire.apis.create_topics import CreateTopicsRequest, CreateTopicsResponse, CreationResult
from kraft_trio.wire.apis.find_coordinator import GROUP, FindCoordinatorRequest, FindCoordinatorResponse
from kraft_trio.wire.apis.incremental_alter_configs import (
    BROKER,
    DELETE,
    TOPIC,
    AlteredResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ResourceResult,
)
from kraft_trio.wire.apis.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kraft_trio.wire.error_codes import ErrorCode

TOPIC_IDS_SINCE = 13
MAGIC_POSITION = 16

MAX_RESOURCES_WITH_MESSAGE = 10
"""The most resources or topics that get a message each: a message is many times longer than one of them."""


class ClientRequests:
    """One topic with one partition, led by the leader of the quorum.

    See docs/explanation/decisions.md#one-topic-one-partition.
    """

    def __init__(
        self,
        context: NodeContext,
        view: Published[QuorumView],
        checker: RecordChecker,
        admission: CommandAdmission | None,
    ) -> None:
        """`admission` is None if the node has no state machine that decodes records."""
        self._config = context.config
        self._refusals = context.refusals
        self._view = view
        self._checker = checker
        self._admission = admission
        self._owners = ProducerOwners(context.config.max_producer_ids)

    # Produce

    async def produce(
        self, request: ProduceRequest, version: int, listener_name: str, address: str, principal: str | None = None
    ) -> Answer:
        """Pass each batch to the leader; the answer has the partitions in order, and acks=0 gets no response.

        `address` is that of the client, and `principal` who it is, None if there is no authorizer.
        """
        replies = []
        was_ours = False
        for partition in request.partitions:
            reply: Reply[ProducePartitionResponse] = Reply()
            replies.append(reply)
            refused = self._refuse_produce(request, partition, version)
            if refused is None and was_ours:
                refused = ProducePartitionResponse.failed(ErrorCode.invalid_request, "the partition is named twice")
            was_ours = was_ours or refused is None
            checked = refused or self._check_batch(partition.records or b"")
            if isinstance(checked, BatchHeader) and principal is not None and checked.producer_id >= 0:
                checked = self._refuse_foreign_producer(checked.producer_id, principal) or checked
            if isinstance(checked, BatchHeader):
                self._bind_producer(checked.producer_id, principal, reply)
                await self._produce_batch(request, partition.records or b"", checked, reply, address)
            else:
                reply.answer(checked)

        def respond(answers: Sequence[ProducePartitionResponse]) -> ProduceResponse | None:
            return None if request.acks == 0 else self._produce_response(request, answers, listener_name)

        return Awaited(replies, respond)

    def _produce_response(
        self, request: ProduceRequest, answers: Sequence[ProducePartitionResponse], listener_name: str
    ) -> ProduceResponse:
        """The response with the partitions' names and, if this node does not lead, the leader (KIP-951)."""
        view = self._view.value
        responses = []
        node_endpoints: tuple[tuple[int, Endpoint], ...] = ()
        for partition, answer in zip(request.partitions, answers, strict=True):
            if answer.error != ErrorCode.not_leader_or_follower or view.leader_id is None:
                responses.append(answer.about(partition))
                continue
            responses.append(answer.about(partition, view.leader_id, view.epoch))
            endpoint = view.leader_endpoint_near(listener_name)
            if endpoint is not None:
                node_endpoints = ((view.leader_id, endpoint),)
        return ProduceResponse(tuple(responses), node_endpoints)

    def _refuse_foreign_producer(self, producer_id: int, principal: str) -> ProducePartitionResponse | None:
        if self._owners.may_use(producer_id, principal):
            return None
        message = f"producer {producer_id}: another principal than {principal} uses this id"
        return ProducePartitionResponse.failed(ErrorCode.invalid_producer_id_mapping, message)

    def _bind_producer(self, producer_id: int, principal: str | None, reply: Reply[ProducePartitionResponse]) -> None:
        """Once the batch is committed, nobody else may use the producer's id."""
        if principal is None or producer_id < 0:
            return

        def bind() -> None:
            if reply.value.error == ErrorCode.none:
                self._owners.used(producer_id, principal)

        reply.when_answered(bind)

    async def _produce_batch(
        self,
        request: ProduceRequest,
        records: bytes,
        header: BatchHeader,
        reply: Reply[ProducePartitionResponse],
        address: str,
    ) -> None:
        """Check the records, and hand the batch to the leader, which answers when it has committed."""
        try:
            if not (may_be_honest_about_time(header) and is_small_and_sound(records, 0, header)):
                await self._checker.check(records, header, address)
            no_command = None if self._admission is None else await self._admission.refusal(records, header)
        except LargeRecordError as error:
            self._refusals.batches += 1
            reply.answer(
                ProducePartitionResponse.failed(
                    ErrorCode.message_too_large, f"{error} when decompressed (message.max.bytes)"
                )
            )
            return
        except ProtocolError as error:
            self._refusals.batches += 1
            reply.answer(ProducePartitionResponse.failed(ErrorCode.invalid_record, str(error)))
            return
        if no_command is not None:
            reply.answer(ProducePartitionResponse.failed(ErrorCode.invalid_record, no_command))
            return
        message = ProduceReceived(records, header, max(request.timeout_ms, 0), reply)
        if not await deliver(self._view.value.leader_mailbox, message):
            reply.answer(ProducePartitionResponse.failed(ErrorCode.not_leader_or_follower))

    def _refuse_produce(
        self, request: ProduceRequest, partition: ProducePartition, version: int
    ) -> ProducePartitionResponse | None:
        by_id = version >= TOPIC_IDS_SINCE
        if by_id and partition.topic_id != self._config.topic_id:
            return ProducePartitionResponse.failed(ErrorCode.unknown_topic_id)
        if (not by_id and partition.topic_name != self._config.topic_name) or partition.partition != 0:
            return ProducePartitionResponse.failed(ErrorCode.unknown_topic_or_partition)
        if request.acks not in (-1, 0, 1):
            return ProducePartitionResponse.failed(ErrorCode.invalid_required_acks, f"acks={request.acks}")
        if request.transactional_id is not None:
            return ProducePartitionResponse.failed(ErrorCode.invalid_request, "there are no transactions here")
        if self._view.value.leader_mailbox is None:
            return ProducePartitionResponse.failed(ErrorCode.not_leader_or_follower)
        return None

    def _check_batch(self, records: bytes) -> BatchHeader | ProducePartitionResponse:
        """The header of the one whole batch of format v2 that must be there, or a refusal."""
        size = len(records)
        if not size:
            return ProducePartitionResponse.failed(ErrorCode.invalid_record, "records: none given, one batch expected")
        if size > self._config.max_message_bytes:
            self._refusals.batches += 1
            return ProducePartitionResponse.failed(
                ErrorCode.message_too_large,
                f"records: {size} bytes, at most {self._config.max_message_bytes} allowed (message.max.bytes)",
            )
        if size > MAGIC_POSITION and records[MAGIC_POSITION] < 2:
            return ProducePartitionResponse.failed(
                ErrorCode.unsupported_for_message_format, f"magic {records[MAGIC_POSITION]}, 2 expected"
            )
        try:
            header = peek_header(records)
            if header.size_in_bytes != size:
                return ProducePartitionResponse.failed(
                    ErrorCode.invalid_record, f"records: {size} bytes, exactly one whole batch expected"
                )
            check_client_batch(records, 0, header)
        except ProtocolError as error:
            return ProducePartitionResponse.failed(ErrorCode.corrupt_message, str(error))
        if header.is_transactional:
            return ProducePartitionResponse.failed(ErrorCode.invalid_record, "there are no transactions here")
        return header

    # FindCoordinator

    @staticmethod
    def find_coordinator(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Refuse for good.

        Java's consumers show the meaning of the code alone; its producers, and other clients, show the message too.
        """
        return FindCoordinatorResponse.refused(
            request,
            ErrorCode.group_id_not_found if request.key_type == GROUP else ErrorCode.invalid_request,
            "this quorum has no consumer groups and no transactions: assign the partition and keep offsets yourself",
        )

    # CreateTopics

    def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Refuse for good.

        Connect and MirrorMaker take a node without CreateTopics for one that creates topics by itself, and wait.
        """
        names = dict.fromkeys(topic.name for topic in request.topics)
        has_messages = len(names) <= MAX_RESOURCES_WITH_MESSAGE
        results = []
        for name in names:
            error, message = ErrorCode.topic_already_exists, None
            if name != self._config.topic_name:
                message = f"the only topic here is {self._config.topic_name}: this quorum creates no others"
                error = ErrorCode.policy_violation
            results.append(CreationResult(name, error, message if has_messages else None))
        return CreateTopicsResponse(tuple(results))

    # IncrementalAlterConfigs

    def alter_configs(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        """Accept what takes keys back to their defaults, because no key has another value.

        So kafka-reassign-partitions can clear the throttles that it never set.
        """
        has_messages = len(request.resources) <= MAX_RESOURCES_WITH_MESSAGE
        results = []
        for resource in request.resources:
            error, message = self._refuse_configs(resource)
            results.append(ResourceResult(resource.type, resource.name, error, message if has_messages else None))
        return IncrementalAlterConfigsResponse(tuple(results))

    def _refuse_configs(self, resource: AlteredResource) -> tuple[ErrorCode, str | None]:
        if resource.type not in (TOPIC, BROKER):
            return ErrorCode.invalid_request, f"resource type {resource.type}: expected a topic or a broker"
        if resource.type == TOPIC and resource.name != self._config.topic_name:
            return ErrorCode.unknown_topic_or_partition, None
        if any(config.operation != DELETE for config in resource.configs):
            return ErrorCode.invalid_config, "there is no dynamic configuration: change the nodes' properties files"
        return ErrorCode.none, None
