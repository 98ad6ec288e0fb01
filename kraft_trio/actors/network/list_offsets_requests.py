"""ListOffsets: the checks, the special timestamps, and the search of the log for a time."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.network.leader_requests import leader_check
from kraft_trio.actors.peers.answers import Answer, Awaited, Worked
from kraft_trio.actors.waiting.address_turns import AddressTurns
from kraft_trio.actors.waiting.published import Published
from kraft_trio.channels import Reply, deliver
from kraft_trio.errors import ProtocolError
from kraft_trio.messages import CommittedEndRequested, QuorumView
from kraft_trio.wire.apis.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kraft_trio.wire.error_codes import ErrorCode

MAX_INT64 = 2**63 - 1


class ListOffsetsRequests:
    """Routes ListOffsets.  Refuses a partition that a request names twice, as Kafka does."""

    def __init__(self, context: NodeContext, view: Published[QuorumView]) -> None:
        self._config = context.config
        self._log = context.log
        self._view = view
        self._turns = AddressTurns()
        """Of the searches: each holds a batch and decodes its records, a part in each turn of the event loop."""

    async def route(self, request: ListOffsetsRequest, address: str) -> Answer:
        """`address` is that of the client."""
        view = self._view.value
        reply: Reply[int | None] = Reply()
        if not await deliver(view.leader_mailbox, CommittedEndRequested(reply)):
            reply.answer(None)
        asked = next(filter(self._is_ours, request.partitions), None)

        def respond(ours: ListOffsetsPartitionResponse | None) -> ListOffsetsResponse:
            return ListOffsetsResponse(
                tuple(
                    ours if partition is asked and ours is not None else self._refused(partition)
                    for partition in request.partitions
                )
            )

        def respond_at_once(committed_ends: Sequence[int | None]) -> ListOffsetsResponse:
            return respond(None if asked is None else self._special(asked, view, committed_ends[0]))

        async def search() -> ListOffsetsResponse:
            assert asked is not None, "nothing to be searched for"
            return respond(await self._search(asked, view, await reply.receive(), address))

        return Awaited((reply,), respond_at_once) if asked is None or asked.timestamp < 0 else Worked(search)

    def _is_ours(self, partition: ListOffsetsPartition) -> bool:
        return partition.partition == 0 and partition.topic == self._config.topic_name

    def _refused(self, partition: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        """The response for another topic, or for a partition that is named twice."""
        error = ErrorCode.invalid_request if self._is_ours(partition) else ErrorCode.unknown_topic_or_partition
        return ListOffsetsPartitionResponse(partition.topic, partition.partition, error)

    def _special(
        self, partition: ListOffsetsPartition, view: QuorumView, committed_end: int | None
    ) -> ListOffsetsPartitionResponse:
        """The response to a special timestamp, such as that of the earliest offset."""
        answer = self._checked(partition, view, committed_end)
        if answer.error != ErrorCode.none or committed_end is None:
            return answer
        match partition.timestamp:
            case t if t == LATEST:
                return attrs.evolve(answer, offset=committed_end, leader_epoch=self._log.end.epoch)
            case t if t in (EARLIEST, EARLIEST_LOCAL):
                return attrs.evolve(answer, offset=self._log.log_start_offset)
            case _:
                return attrs.evolve(answer, error=ErrorCode.unsupported_version)

    async def _search(
        self, partition: ListOffsetsPartition, view: QuorumView, committed_end: int | None, address: str
    ) -> ListOffsetsPartitionResponse:
        answer = self._checked(partition, view, committed_end)
        if answer.error != ErrorCode.none or committed_end is None:
            return answer
        try:
            async with self._turns.held(address):
                found = await self._log.offset_for_timestamp(partition.timestamp)
        except ProtocolError:
            return attrs.evolve(answer, error=ErrorCode.corrupt_message)
        if found is None or found[0] >= committed_end:
            return answer
        return attrs.evolve(answer, offset=found[0], timestamp_ms=min(found[1], MAX_INT64))

    @staticmethod
    def _checked(
        partition: ListOffsetsPartition, view: QuorumView, committed_end: int | None
    ) -> ListOffsetsPartitionResponse:
        """A response with an error if this node is not the leader, or does not know what is committed."""
        error = leader_check(view, partition.current_leader_epoch)
        if error is None and committed_end is None:
            error = ErrorCode.offset_not_available
        return ListOffsetsPartitionResponse(partition.topic, partition.partition, error or ErrorCode.none)
