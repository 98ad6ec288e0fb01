"""Gathers the application's appends into batches, and sends them to the leader, on this node or another."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import attrs
import trio
from outcome import Error, Outcome, Value

from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.actors.waiting.published import Published
from kraft_trio.actors.waiting.served_mailbox import ServedMailbox
from kraft_trio.channels import Mailbox, Reply, deliver, send_or_wait
from kraft_trio.config import NodeConfig
from kraft_trio.errors import (
    KraftError,
    NetworkError,
    NodeClosedError,
    NotAppendedError,
    NotLeaderError,
    OutcomeUnknownError,
    RecordTooLargeError,
    RefusedError,
    UnsupportedVersionError,
)
from kraft_trio.idempotent_producer import BegunBatch, IdempotentProducer, ProducerLeader, failure_of
from kraft_trio.logs import get_logger
from kraft_trio.messages import LeaderMessage, ProduceReceived, ProducerIdRequested, QuorumView
from kraft_trio.protocol.types import Endpoint
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, peek_header
from kraft_trio.storage.batches.new_record_check import largest_size
from kraft_trio.storage.batches.record_limits import BATCH_OVERHEAD_BYTES, MAX_BATCH_HEADERS, MAX_RECORDS
from kraft_trio.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse
from kraft_trio.wire.apis.produce import PRODUCE, ProducePartition, ProducePartitionResponse, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

MAILBOX_SIZE = 1024
ENOUGH: Final = 16
"""At the leader, so many requests wait for others no longer than `kraft.append.gather.ms`."""
NO_TIMEOUT_MS: Final = 2**31 - 1


@attrs.frozen
class AppendRequested:
    """Records to append at consecutive offsets."""

    records: Sequence[NewRecord]
    size_in_bytes: int
    """The most that the records can take in a batch."""
    header_count: int
    reply: Reply[Outcome[int]] = attrs.field(factory=Reply)
    """The offset of the first record, once all are committed, or the error."""


class Appender:
    """Takes the append requests of this process in order, and answers each when it is committed.

    One batch is under way at a time.  Requests that arrive meanwhile share the next batch, which is sent when the
    previous one is committed, and `kraft.append.gather.ms` after that was begun at the earliest.
    `controller.quorum.append.linger.ms` delays each batch so that more requests can join it.

    On the leader's node, two kinds of batches take no turn of this actor: that of a single request, and that of ENOUGH
    requests or more when the oldest has waited for `kraft.append.gather.ms`.  Where each caller takes long, as in a
    gateway, this actor's turn would come only when all callers wait, and the leader would be idle until the commit.
    LeaderReplication gets these batches in the step of a caller or in its own, and answers the callers in its own.  If
    it refuses a batch, this actor continues with it.
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
        self._producer = IdempotentProducer(_Leaders(config, client, view, random_source), wall_clock_ms)
        self._wall_clock_ms = wall_clock_ms
        self._view = view
        self._mailbox = ServedMailbox[AppendRequested | None](MAILBOX_SIZE)
        """None wakes this actor, which has to end what others have begun."""
        self._waiting: deque[AppendRequested] = deque()
        self._on_their_way: list[AppendRequested] = []
        self._begun: _Begun | None = None
        self._failure: BaseException | None = None
        """What was raised in the step of another task, and ends this actor."""
        self._last_was_alone = False
        """Whether the last batch had one request.  If not, the next one is gathered."""
        self._gather_s = config.append_gather_ms / 1000
        self._began_s = -math.inf
        """When the last batch was begun, on Trio's clock."""
        self._overdue_s = math.inf
        """When others than this actor may begin the next batch, on Trio's clock."""
        self._one_by_one = 0
        """How many of the waiting requests were refused in a batch that they shared, so that each is sent alone."""

    async def append(self, records: Sequence[NewRecord], epoch: int | None = None) -> int:
        """Append records at consecutive offsets, wait until they are committed, and return the first offset.

        With `epoch`, they take effect in that epoch of this node's leadership or never.

        Raises RecordTooLargeError or RefusedError if the records were not appended, OutcomeUnknownError if they may
        have been, and NodeClosedError if the node stopped before they were sent.  With `epoch`, NotLeaderError says
        that this node does not lead it and that nothing was appended.  A cancelled append may or may not take effect.
        """
        if len(records) > MAX_RECORDS:
            raise RecordTooLargeError(f"values: {len(records)} for one batch, which has {MAX_RECORDS} at most")
        records_bytes, header_count = largest_size(records)
        if header_count > MAX_BATCH_HEADERS:
            raise RecordTooLargeError(
                f"values: {header_count} headers for one batch, which has {MAX_BATCH_HEADERS} at most"
            )
        request = AppendRequested(records, records_bytes, header_count)
        size = BATCH_OVERHEAD_BYTES + request.size_in_bytes
        if size > self._config.max_message_bytes:
            raise RecordTooLargeError(
                f"values: one batch of {size} bytes, message.max.bytes allows {self._config.max_message_bytes}"
            )
        await trio.lowlevel.checkpoint_if_cancelled()
        if epoch is not None:
            return await self._append_in_epoch(records, epoch)
        now_s = trio.current_time()
        self._overdue_s = min(self._overdue_s, now_s + self._gather_s)
        try:
            await send_or_wait(self._mailbox, request)
        except trio.BrokenResourceError:
            raise NodeClosedError("append: the node has stopped") from None
        if now_s >= self._overdue_s:
            self._begin_overdue()
        return (await request.reply.receive()).unwrap()

    async def _append_in_epoch(self, records: Sequence[NewRecord], epoch: int) -> int:
        """Send one batch once to the LeaderReplication of this epoch.

        It shares no batch with other requests.  No other leader ever gets it, so it needs no producer id.
        """
        view = self._view.value
        if view.leader_mailbox is None or view.epoch != epoch:
            role = type(view.role).__name__
            raise NotLeaderError(
                f"append: epoch {epoch}: this node does not lead it; its role is {role} in {view.epoch}"
            )
        batch = encode_batch(records, timestamp_ms=self._wall_clock_ms())
        answer = await _OwnLeader(view.leader_mailbox, NO_TIMEOUT_MS).produce(batch)
        match answer.error:
            case ErrorCode.none:
                return answer.base_offset
            case ErrorCode.not_leader_or_follower:
                raise NotLeaderError(f"append: epoch {epoch} has ended")
            case ErrorCode.request_timed_out:
                where = f"offset {answer.base_offset}: " if answer.base_offset >= 0 else ""
                raise OutcomeUnknownError(
                    f"append: {where}{answer.error_message}; a later leader may commit the records of epoch {epoch}"
                )
        raise failure_of(answer)

    async def run(self) -> None:
        """Serve until cancelled, then answer all requests that still wait."""
        try:
            while True:
                await self._append_group(await self._next_group())
        finally:
            self._abandon_waiting()

    def _abandon_waiting(self) -> None:
        if self._begun is not None:
            self._begun.reply.abandon()
        for request in self._on_their_way:
            request.reply.answer(
                Error(OutcomeUnknownError("append: the node stopped before it had heard of the commit"))
            )
        self._waiting += filter(None, self._mailbox.close())
        for request in self._waiting:
            request.reply.answer(Error(NodeClosedError("append: the node stopped before it was sent")))
        self._waiting.clear()
        self._overdue_s = math.inf

    # At a leader, in the steps of others

    def _begin_alone(self, request: AppendRequested | None) -> bool:
        """Begin the batch of a single request, unless others like it may come.  Returns whether that is done."""
        return request is not None and self._last_was_alone and not self._on_their_way and self._begin([request])

    def _begin_overdue(self) -> None:
        """Begin a batch of the waiting requests, if they are ENOUGH.  What is left is for this actor.  Never raises."""
        if not self._may_begin or len(self._waiting) + self._mailbox.queued < ENOUGH:
            return
        self._take_queued()
        group = self._first_waiting()
        try:
            is_begun = self._begin(group)
        except BaseException as error:
            self._failure = error
            self._wake()
            return
        if not is_begun:
            self._waiting.extendleft(reversed(group))
            self._overdue_s = math.inf
        if self._waiting:
            self._wake()

    @property
    def _may_begin(self) -> bool:
        is_set = self._config.append_gather_ms > 0 and self._config.append_linger_ms == 0
        return is_set and not self._on_their_way and not self._one_by_one

    def _begin(self, group: list[AppendRequested]) -> bool:
        """Like `_give_to_leader`.  What that raises ends the node, and then the callers are answered."""
        try:
            return self._give_to_leader(group)
        except BaseException:
            self._on_their_way = group
            raise

    def _give_to_leader(self, group: list[AppendRequested]) -> bool:
        """Give a batch to this node's leader.  Returns False, having done nothing, if it does not take that now."""
        mailbox = self._view.value.leader_mailbox
        begun = None if mailbox is None else self._producer.begin(_records_of(group))
        if mailbox is None or begun is None:
            return False
        reply: Reply[ProducePartitionResponse] = Reply()
        try:
            mailbox.send_nowait(
                ProduceReceived(begun.batch, peek_header(begun.batch), self._config.request_timeout_ms, reply)
            )
        except (trio.WouldBlock, trio.BrokenResourceError):
            self._producer.take_back(begun)
            return False
        self._note_begun(group)
        self._begun = _Begun(begun, reply)
        reply.when_answered(self._begun_is_answered)
        return True

    def _note_begun(self, group: list[AppendRequested]) -> None:
        now_s = trio.current_time()
        self._on_their_way = group
        self._began_s = now_s
        self._overdue_s = now_s + self._gather_s if self._waiting else math.inf
        self._last_was_alone = len(group) == 1 and self._config.append_linger_ms == 0

    def _begun_is_answered(self) -> None:
        """Answer the callers, in the leader's step.  A failure is left to this actor."""
        begun = self._begun
        assert begun is not None, "an answer to no batch"
        answer = begun.reply.value
        if answer.error != ErrorCode.none:
            self._wake()
            return
        self._producer.appended(begun.batch)
        self._begun = None
        self._answer_group(answer.base_offset)
        if trio.current_time() >= self._overdue_s:
            self._begin_overdue()

    def _wake(self) -> None:
        # A mailbox without room has woken this actor already.
        with suppress(trio.WouldBlock):
            self._mailbox.send_nowait(None)

    async def _end_begun(self, begun: _Begun) -> None:
        answer = await begun.reply.receive()
        if self._begun is begun:
            outcome = await _outcome(self._producer.finish(begun.batch, answer))
            self._begun = None
            self._end_group(outcome)

    # Many requests, or another leader

    async def _next_group(self) -> list[AppendRequested]:
        """The next requests in order, as many as fit into one batch.  No batch is under way then."""
        self._take_queued()
        if self._waiting:
            await self._let_answered_callers_join()
            await self._gather()
        elif (first := await self._mailbox.receive(self._begin_alone)) is not None:
            self._waiting.append(first)
        while self._begun is not None:
            was_alone = self._last_was_alone
            await self._end_begun(self._begun)
            await self._let_answered_callers_join()
            if not was_alone:
                await self._gather()
        if self._failure is not None:
            raise self._failure
        self._take_queued()
        if self._config.append_linger_ms > 0:
            await self._linger()
        return self._first_waiting()

    def _first_waiting(self) -> list[AppendRequested]:
        """Take the first of the waiting requests, as many as fit into one batch."""
        group: list[AppendRequested] = []
        size, count, header_count = BATCH_OVERHEAD_BYTES, 0, 0
        while self._waiting:
            size += self._waiting[0].size_in_bytes
            count += len(self._waiting[0].records)
            header_count += self._waiting[0].header_count
            is_full = size > self._config.max_message_bytes or count > MAX_RECORDS or header_count > MAX_BATCH_HEADERS
            if group and (is_full or self._one_by_one):
                break
            group.append(self._waiting.popleft())
        self._one_by_one = max(self._one_by_one - 1, 0)
        return group

    async def _gather(self) -> None:
        """Let more requests join those that have come while a batch was under way."""
        if self._one_by_one:
            return
        due_s = self._began_s + self._gather_s
        if trio.current_time() < due_s:
            await trio.sleep_until(due_s)
            self._take_queued()

    async def _linger(self) -> None:
        size = sum(request.size_in_bytes for request in self._waiting)
        with trio.move_on_after(self._config.append_linger_ms / 1000):
            while size < self._config.max_message_bytes:
                request = await self._mailbox.receive(lambda _request: False)
                if request is not None:
                    self._waiting.append(request)
                    size += request.size_in_bytes

    async def _let_answered_callers_join(self) -> None:
        """Run after the callers that were answered, whose next requests can share the batch of those that wait."""
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        self._take_queued()

    def _take_queued(self) -> None:
        while True:
            try:
                request = self._mailbox.receive_nowait()
            except trio.WouldBlock:
                return
            if request is not None:
                self._waiting.append(request)

    async def _append_group(self, group: list[AppendRequested]) -> None:
        if not group:
            return
        self._note_begun(group)
        self._end_group(await _outcome(self._producer.append(_records_of(group))))

    def _end_group(self, outcome: int | KraftError) -> None:
        group = self._on_their_way
        if isinstance(outcome, NotAppendedError) and len(group) > 1:
            # The records of one request may be why, or the timestamps of several in one batch, or its size.
            self._on_their_way = []
            self._waiting.extendleft(reversed(group))
            self._one_by_one = len(group)
            return
        self._answer_group(outcome)

    def _answer_group(self, outcome: int | KraftError) -> None:
        group, self._on_their_way = self._on_their_way, []
        for request in group:
            if isinstance(outcome, int):
                request.reply.answer(Value(outcome))
                outcome += len(request.records)
            else:
                request.reply.answer(Error(outcome))


async def _outcome(appending: Awaitable[int]) -> int | KraftError:
    try:
        return await appending
    except (RecordTooLargeError, RefusedError, OutcomeUnknownError) as error:
        return error


def _records_of(group: Sequence[AppendRequested]) -> list[NewRecord]:
    return [record for request in group for record in request.records]


@attrs.frozen
class _Begun:
    """A batch that was begun in the step of another task, and the leader's answer to it."""

    batch: BegunBatch
    reply: Reply[ProducePartitionResponse]


class _Leaders:
    """Finds the leader that this node knows, for the producer."""

    def __init__(
        self, config: NodeConfig, client: NetworkClient, view: Published[QuorumView], random_source: random.Random
    ) -> None:
        self._config = config
        self._client = client
        self._view = view
        self._random = random_source

    async def find(self) -> ProducerLeader:
        """Wait until this node knows a leader.  Raises NetworkError if the leader's endpoint is not known."""
        view = await self._view.wait_for(lambda view: view.leader_id is not None)
        if view.leader_mailbox is not None:
            return _OwnLeader(view.leader_mailbox, self._config.request_timeout_ms)
        endpoint = view.leader_endpoint(self._config.controller_listener_name)
        if endpoint is None:
            raise NetworkError(f"node {view.leader_id} leads, and it is not known where it listens")
        return _OtherLeader(view.leader_id, endpoint, self._client, self._config)

    async def prepare_another(self) -> None:
        await trio.sleep(self._config.retry_backoff_ms * self._random.uniform(1.0, 2.0) / 1000)


@attrs.frozen
class _OwnLeader:
    """This node's LeaderReplication."""

    mailbox: Mailbox[LeaderMessage]
    timeout_ms: int

    async def init_producer_id(self) -> InitProducerIdResponse:
        reply: Reply[int | None] = Reply()
        if await deliver(self.mailbox, ProducerIdRequested(reply)):
            producer_id = await reply.receive()
            if producer_id is not None:
                return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        return InitProducerIdResponse(error=ErrorCode.not_leader_or_follower)

    async def produce(self, batch: bytes) -> ProducePartitionResponse:
        reply: Reply[ProducePartitionResponse] = Reply()
        if await deliver(self.mailbox, ProduceReceived(batch, peek_header(batch), self.timeout_ms, reply)):
            try:
                return await reply.receive()
            except trio.Cancelled:
                if not reply.is_answered:
                    reply.abandon()
                raise
        return ProducePartitionResponse.failed(ErrorCode.not_leader_or_follower)


@attrs.frozen
class _OtherLeader:
    """A leader on another node, asked through the node's own network client."""

    leader_id: int | None
    endpoint: Endpoint
    client: NetworkClient
    config: NodeConfig

    async def init_producer_id(self) -> InitProducerIdResponse:
        timeout_ms = self.config.request_timeout_ms
        try:
            return await self.client.request(self.endpoint, INIT_PRODUCER_ID, InitProducerIdRequest(), timeout_ms)
        except (NetworkError, UnsupportedVersionError) as error:
            log.info("no producer id", reason=str(error))
            raise

    async def produce(self, batch: bytes) -> ProducePartitionResponse:
        timeout_ms = self.config.request_timeout_ms
        partition = ProducePartition(
            topic_name=self.config.topic_name, topic_id=self.config.topic_id, partition=0, records=batch
        )
        request = ProduceRequest(acks=-1, timeout_ms=timeout_ms, partitions=(partition,))
        try:
            response = await self.client.request(self.endpoint, PRODUCE, request, timeout_ms + timeout_ms // 2)
        except (NetworkError, UnsupportedVersionError) as error:
            log.info("append not answered", leader_id=self.leader_id, reason=str(error))
            raise
        if len(response.partitions) != 1:
            raise NetworkError(f"Produce: answered for {len(response.partitions)} partitions, 1 was asked for")
        return response.partitions[0]
