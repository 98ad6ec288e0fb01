"""Appends of the embedding application: gathered into batches, sent to whoever leads, each taking effect at most once.

The appender is an idempotent producer (KIP-98) of its own: a batch whose fate is not known is sent again under the same
sequence number, and the leader, whose producer state comes from the log, does not append it twice.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import attrs
import structlog
import trio

from kraft_trio.actors.network_client import NetworkClient
from kraft_trio.actors.published import Published
from kraft_trio.config import NodeConfig
from kraft_trio.errors import (
    NetworkError,
    NodeClosedError,
    OutcomeUnknownError,
    RecordTooLargeError,
    UnsupportedVersionError,
)
from kraft_trio.messages import LeaderMessage, ProduceReceived, ProducerIdRequested, QuorumView, Reply, deliver
from kraft_trio.storage.batch import NewRecord, encode_batch
from kraft_trio.storage.record_limits import MAX_RECORDS
from kraft_trio.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from kraft_trio.wire.apis.produce import PRODUCE, ProducePartition, ProducePartitionResponse, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode

log = structlog.get_logger(__name__)

T = TypeVar("T")

MAILBOX_SIZE = 1024
BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 21
MAX_SEQUENCE = 2**31 - 1

RETRIABLE = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.network_exception,
    }
)


@attrs.frozen
class AppendRequested:
    """Values, encoded already, to be appended next to each other."""

    values: tuple[bytes, ...]
    reply: Reply[int | Exception]
    """The offset of the first value, once all are committed; or why not."""

    @property
    def size_in_bytes(self) -> int:
        return sum(len(value) + RECORD_OVERHEAD_BYTES for value in self.values)


class Appender:
    """Takes append requests of this process, in order, and answers each when it has committed.

    One batch is on its way at a time; what arrives meanwhile shares the next one, which leaves when the one before has
    committed.  `controller.quorum.append.linger.ms`, where it is set, holds a batch back for company that long.
    """

    def __init__(
        self,
        *,
        config: NodeConfig,
        client: NetworkClient,
        view: Published[QuorumView],
        random_source: random.Random,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._client = client
        self._view = view
        self._random = random_source
        self._wall_clock_ms = wall_clock_ms
        self._mailbox, self._inbox = trio.open_memory_channel[AppendRequested](MAILBOX_SIZE)
        self._waiting: deque[AppendRequested] = deque()
        self._on_their_way: list[AppendRequested] = []
        self._producer_id: int | None = None
        self._next_sequence = 0

    async def append(self, values: Sequence[bytes]) -> int:
        """Append values next to each other and wait until they are committed; the first one's offset (inclusive).

        Raises RecordTooLargeError when they do not fit one batch, OutcomeUnknownError when their fate cannot be
        learned, NodeClosedError when the node stopped before they were sent.  A cancelled append may or may not take
        effect.
        """
        if len(values) > MAX_RECORDS:
            raise RecordTooLargeError(f"values: {len(values)} for one batch, which has {MAX_RECORDS} at most")
        request = AppendRequested(tuple(values), Reply())
        size = BATCH_OVERHEAD_BYTES + request.size_in_bytes
        if size > self._config.max_message_bytes:
            raise RecordTooLargeError(
                f"values: one batch of {size} bytes, message.max.bytes allows {self._config.max_message_bytes}"
            )
        try:
            await self._mailbox.send(request)
        except trio.BrokenResourceError:
            raise NodeClosedError("append: the node has stopped") from None
        outcome = await request.reply.receive()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def run(self) -> None:
        """Serve until cancelled; whoever still waits then is answered."""
        try:
            while True:
                await self._append_group(await self._next_group())
        finally:
            self._abandon_waiting()

    def _abandon_waiting(self) -> None:
        for request in self._on_their_way:
            request.reply.answer(OutcomeUnknownError("append: the node stopped before it had heard of the commit"))
        self._drain_inbox()
        for request in self._waiting:
            request.reply.answer(NodeClosedError("append: the node stopped before it was sent"))
        self._inbox.close()

    async def _next_group(self) -> list[AppendRequested]:
        """The requests that have come in, as many as one batch may hold, in their order; at least one."""
        if not self._waiting:
            self._waiting.append(await self._inbox.receive())
        self._drain_inbox()
        if self._config.append_linger_ms > 0:
            await self._linger()
        group: list[AppendRequested] = []
        size, count = BATCH_OVERHEAD_BYTES, 0
        while self._waiting:
            size += self._waiting[0].size_in_bytes
            count += len(self._waiting[0].values)
            if group and (size > self._config.max_message_bytes or count > MAX_RECORDS):
                break
            group.append(self._waiting.popleft())
        return group

    async def _linger(self) -> None:
        size = sum(request.size_in_bytes for request in self._waiting)
        with trio.move_on_after(self._config.append_linger_ms / 1000):
            while size < self._config.max_message_bytes:
                request = await self._inbox.receive()
                self._waiting.append(request)
                size += request.size_in_bytes

    def _drain_inbox(self) -> None:
        while True:
            try:
                self._waiting.append(self._inbox.receive_nowait())
            except trio.WouldBlock:
                return

    async def _append_group(self, group: list[AppendRequested]) -> None:
        values = [value for request in group for value in request.values]
        self._on_their_way = group
        outcome = await self._append_values(values)
        self._on_their_way = []
        for request in group:
            request.reply.answer(outcome)
            if isinstance(outcome, int):
                outcome += len(request.values)

    async def _append_values(self, values: list[bytes]) -> int | Exception:
        """Send one batch until its fate is known."""
        if self._producer_id is None:
            self._producer_id = await self._until_answered(self._ask_producer_id)
            self._next_sequence = 0
        now = self._wall_clock_ms()
        batch = encode_batch(
            [NewRecord(value=value) for value in values],
            timestamp_ms=now,
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._next_sequence,
        )
        answer = await self._until_answered(lambda: self._send(batch))
        if answer.error == ErrorCode.none:
            self._next_sequence = (self._next_sequence + len(values)) & MAX_SEQUENCE
            return answer.base_offset
        self._producer_id = None
        return OutcomeUnknownError(
            f"append refused with {answer.error.name}: {answer.error_message or 'no reason given'}"
        )

    async def _until_answered(self, ask: Callable[[], Awaitable[T | None]]) -> T:
        """Ask the leader, whoever it is by then, until it answers for good."""
        while True:
            answer = await ask()
            if answer is not None:
                return answer
            await trio.sleep(self._config.retry_backoff_ms * self._random.uniform(1.0, 2.0) / 1000)

    async def _ask_producer_id(self) -> int | None:
        view = await self._view.wait_for(lambda view: view.leader_id is not None)
        if view.leader_mailbox is not None:
            reply: Reply[int | None] = Reply()
            return await self._from_own_leader(view.leader_mailbox, ProducerIdRequested(reply), reply)
        endpoint = view.leader_endpoint(self._config.controller_listener_name)
        if endpoint is None:
            return None
        try:
            response = await self._client.request(
                endpoint, INIT_PRODUCER_ID, InitProducerIdRequest(), self._config.request_timeout_ms
            )
        except (NetworkError, UnsupportedVersionError) as error:
            log.info("no producer id", reason=str(error))
            return None
        return response.producer_id if response.error == ErrorCode.none else None

    async def _send(self, batch: bytes) -> ProducePartitionResponse | None:
        """Offer the batch to the leader once; None where it has to be offered again."""
        view = await self._view.wait_for(lambda view: view.leader_id is not None)
        timeout_ms = self._config.request_timeout_ms
        answer: ProducePartitionResponse | None
        if view.leader_mailbox is not None:
            reply: Reply[ProducePartitionResponse] = Reply()
            answer = await self._from_own_leader(view.leader_mailbox, ProduceReceived(batch, timeout_ms, reply), reply)
        else:
            answer = await self._send_to_peer(view, batch, timeout_ms)
        return None if answer is None or answer.error in RETRIABLE else answer

    async def _from_own_leader(
        self, mailbox: trio.MemorySendChannel[LeaderMessage], message: LeaderMessage, reply: Reply[T]
    ) -> T | None:
        if not await deliver(mailbox, message):
            return None
        return await reply.receive()

    async def _send_to_peer(self, view: QuorumView, batch: bytes, timeout_ms: int) -> ProducePartitionResponse | None:
        endpoint = view.leader_endpoint(self._config.controller_listener_name)
        if endpoint is None:
            return None
        request = ProduceRequest(
            acks=-1,
            timeout_ms=timeout_ms,
            partitions=(
                ProducePartition(
                    topic_name=self._config.topic_name, topic_id=self._config.topic_id, partition=0, records=batch
                ),
            ),
        )
        try:
            response = await self._client.request(endpoint, PRODUCE, request, timeout_ms + timeout_ms // 2)
        except (NetworkError, UnsupportedVersionError) as error:
            log.info("append not answered", leader_id=view.leader_id, reason=str(error))
            return None
        return response.partitions[0] if len(response.partitions) == 1 else None
