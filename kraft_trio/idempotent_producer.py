"""Appending batches so that each takes effect at most once, however often it is sent (KIP-98, KIP-360).

The leader tells a repeated batch from a new one by producer id, producer epoch and sequence number.  A batch whose fate
is unknown is sent again unchanged.  If its fate stays unknown, the producer drops its id and asks for a new one.

The clients and the node's own appender share this producer.  They differ in how they reach the leader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs
import trio

from kraft_trio.errors import (
    ClientClosedError,
    NetworkError,
    OutcomeUnknownError,
    RecordTooLargeError,
    RefusedError,
    UnsupportedVersionError,
)
from kraft_trio.protocol.producers import MAX_SEQUENCE
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.apis.init_producer_id import InitProducerIdResponse
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import TRY_AGAIN, ErrorCode

_IDENTITY_LOST: Final = frozenset(
    {
        ErrorCode.unknown_producer_id,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
    }
)
"""The leader has forgotten the producer, or remembers another history of it.  It has not appended the batch."""

_FATE_UNKNOWN: Final = frozenset(
    {
        ErrorCode.unknown_server_error,
        ErrorCode.kafka_storage_error,
        ErrorCode.not_enough_replicas_after_append,
    }
)
"""The leader may have appended the batch before it failed, and sending the batch again promises nothing."""

_TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})


class ProducerLeader(Protocol):
    """A leader that can be asked.  Both methods raise NetworkError when no answer comes.

    They raise UnsupportedVersionError, with nothing sent, for a leader that does not have the API.
    """

    async def init_producer_id(self) -> InitProducerIdResponse:
        """Ask for a new producer id."""
        ...

    async def produce(self, batch: bytes) -> ProducePartitionResponse:
        """Have one batch appended, and wait until it has committed."""
        ...


class ProducerLeaders(Protocol):
    """How a producer reaches the leader."""

    async def find(self) -> ProducerLeader:
        """Find the leader.  Raises NetworkError or UnsupportedVersionError if that fails."""
        ...

    async def prepare_another(self) -> None:
        """After an attempt that failed: forget the leader, and wait a little before the next attempt."""
        ...


@attrs.define
class _Identity:
    producer_id: int
    producer_epoch: int
    next_sequence: int = 0


@attrs.frozen
class BegunBatch:
    """A batch with its sequence numbers, to be sent unchanged until its fate is known."""

    records: Sequence[NewRecord]
    identity: _Identity
    batch: bytes


@attrs.define
class _Attempt:
    """What is known about the batch that is being appended."""

    may_have_taken_effect: bool = False
    problem: str = "there was no time"


class IdempotentProducer:
    """Appends one batch at a time, for one task at a time."""

    def __init__(self, leaders: ProducerLeaders, wall_clock_ms: Callable[[], int]) -> None:
        """`wall_clock_ms` gives the records their timestamps."""
        self._leaders = leaders
        self._wall_clock_ms = wall_clock_ms
        self._identity: _Identity | None = None

    async def append(self, records: Sequence[NewRecord], deadline: float = math.inf) -> int:
        """Append one batch, wait until it has committed, and return its first offset.

        `deadline` is on Trio's clock.  Raises

        - RecordTooLargeError or RefusedError if a leader refuses the batch; it is not in the log,
        - NetworkError if the batch could not be sent to a leader before the deadline,
        - ClientClosedError if the client was closed before the batch was sent,
        - OutcomeUnknownError if the batch may be in the log.

        After a cancelled call the batch may be in the log or not.
        """
        if trio.current_time() >= deadline:
            raise NetworkError("append: not sent: the deadline had passed already")
        attempt = _Attempt()
        try:
            if deadline == math.inf:
                return await self._append(records, attempt)
            with trio.move_on_at(deadline):
                return await self._append(records, attempt)
        except ClientClosedError as error:
            if attempt.may_have_taken_effect:
                raise OutcomeUnknownError(f"append: sent, and then {error}: {attempt.problem}") from error
            raise
        if attempt.may_have_taken_effect:
            raise OutcomeUnknownError(f"append: sent, but not confirmed in time: {attempt.problem}")
        raise NetworkError(f"append: not sent in time: {attempt.problem}")

    def begin(self, records: Sequence[NewRecord]) -> BegunBatch | None:
        """Encode a batch for the caller to send, which then calls `finish`.  None if the producer has no id yet."""
        # Kept again only when the batch's fate is known: until then no other batch may take its sequence numbers.
        identity, self._identity = self._identity, None
        return None if identity is None else BegunBatch(records, identity, self._encode(records, identity))

    def take_back(self, begun: BegunBatch) -> None:
        """Forget a begun batch that was not sent."""
        self._identity = begun.identity

    def appended(self, begun: BegunBatch) -> None:
        """Note that a begun batch has committed."""
        identity = begun.identity
        identity.next_sequence = (identity.next_sequence + len(begun.records)) & MAX_SEQUENCE
        self._identity = identity

    async def finish(self, begun: BegunBatch, answer: ProducePartitionResponse) -> int:
        """Continue with a begun batch, sent once and answered so, as `append` does.  Raises what `append` raises."""
        attempt = _Attempt()
        if answer.error in TRY_AGAIN:
            attempt.may_have_taken_effect = True
            attempt.problem = _describe(answer)
            await self._leaders.prepare_another()
            answer = await self._send_until_answered(begun.batch, attempt)
        offset = self._outcome(begun, answer, attempt)
        return await self._append(begun.records, attempt) if offset is None else offset

    async def _append(self, records: Sequence[NewRecord], attempt: _Attempt) -> int:
        while True:
            begun = self.begin(records)
            if begun is None:
                identity = await self._identify(attempt)
                begun = BegunBatch(records, identity, self._encode(records, identity))
            answer = await self._send_until_answered(begun.batch, attempt)
            offset = self._outcome(begun, answer, attempt)
            if offset is not None:
                return offset

    def _outcome(self, begun: BegunBatch, answer: ProducePartitionResponse, attempt: _Attempt) -> int | None:
        """The first offset of a batch, or None if it has to be sent with another producer id.  Raises for a failure."""
        if answer.error == ErrorCode.none:
            self.appended(begun)
            return answer.base_offset
        attempt.problem = _describe(answer)
        if attempt.may_have_taken_effect:
            raise OutcomeUnknownError(f"append: sent more than once, then {attempt.problem}")
        if answer.error not in _IDENTITY_LOST:
            raise failure_of(answer)
        return None

    def _encode(self, records: Sequence[NewRecord], identity: _Identity) -> bytes:
        return encode_batch(
            records,
            timestamp_ms=self._wall_clock_ms(),
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=identity.next_sequence,
        )

    async def _identify(self, attempt: _Attempt) -> _Identity:
        """Ask for a producer id until a leader gives one."""
        while True:
            try:
                response = await (await self._leaders.find()).init_producer_id()
            except (NetworkError, UnsupportedVersionError) as error:
                attempt.problem = str(error)
            else:
                if response.error == ErrorCode.none:
                    return _Identity(response.producer_id, response.producer_epoch)
                attempt.problem = f"InitProducerId: {response.error.name}"
                if response.error == ErrorCode.cluster_authorization_failed:
                    attempt.problem += "; it needs WRITE on the topic"
                if response.error not in TRY_AGAIN:
                    raise RefusedError(f"append: {attempt.problem}")
            await self._leaders.prepare_another()

    async def _send_until_answered(self, batch: bytes, attempt: _Attempt) -> ProducePartitionResponse:
        """Send the batch, as often as necessary, until a leader gives a final answer."""
        while True:
            was_uncertain = attempt.may_have_taken_effect
            try:
                leader = await self._leaders.find()
                attempt.may_have_taken_effect = True
                answer = await leader.produce(batch)
            except UnsupportedVersionError as error:
                attempt.may_have_taken_effect = was_uncertain
                attempt.problem = str(error)
            except NetworkError as error:
                attempt.problem = str(error)
            else:
                if answer.error not in TRY_AGAIN:
                    attempt.may_have_taken_effect = was_uncertain
                    return answer
                attempt.problem = _describe(answer)
            await self._leaders.prepare_another()


def failure_of(answer: ProducePartitionResponse) -> OutcomeUnknownError | RecordTooLargeError | RefusedError:
    """The error for a batch that was sent once, to a leader that refused it for good or failed."""
    reason = f"append: {_describe(answer)}"
    if answer.error in _FATE_UNKNOWN:
        return OutcomeUnknownError(reason)
    if answer.error in _TOO_LARGE:
        return RecordTooLargeError(reason)
    return RefusedError(reason)


def _describe(answer: ProducePartitionResponse) -> str:
    return f"Produce: {answer.error.name}" + (f": {answer.error_message}" if answer.error_message else "")
