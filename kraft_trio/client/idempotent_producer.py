"""Appending batches so that each takes effect at most once, whatever is tried again (KIP-98, KIP-360).

The leader tells a repeated batch from a new one by producer id, epoch and sequence number.  A batch whose fate is not
known is sent again as it was; once a fate stays unknown, the identity is given up, and nothing is sent under it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

from kraft_trio.client.connecting import TRY_AGAIN, RefusedError, ask
from kraft_trio.client.leader_connection import ClientSettings, Leader, LeaderConnection
from kraft_trio.errors import (
    NetworkError,
    OutcomeUnknownError,
    RecordTooLargeError,
    UnsupportedVersionError,
)
from kraft_trio.storage.batch import NewRecord, encode_batch
from kraft_trio.wire.api import INIT_PRODUCER_ID, PRODUCE
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest
from kraft_trio.wire.apis.produce import ProducePartition, ProducePartitionResponse, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode

_SEQUENCES: Final = 2**31
_WHEN_COMMITTED: Final = -1

_IDENTITY_LOST: Final = frozenset(
    {
        ErrorCode.unknown_producer_id,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
    }
)
"""The leader knows nothing of us, or something else: nothing was appended, a new identity begins at sequence 0."""

_TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})


@attrs.define
class _Identity:
    producer_id: int
    producer_epoch: int
    next_sequence: int = 0


class IdempotentProducer:
    """Appends one batch at a time; used by one task at a time.  Whoever made it calls `aclose`."""

    def __init__(self, settings: ClientSettings, wall_clock_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._wall_clock_ms = wall_clock_ms
        self._leader = LeaderConnection(settings)
        self._identity: _Identity | None = None

    async def aclose(self) -> None:
        await self._leader.forget()

    async def append(self, records: Sequence[NewRecord], deadline: float) -> int:
        """Append one batch and wait until it is committed, until `deadline` (Trio's clock); its first offset.

        Raises RefusedError, RecordTooLargeError, OutcomeUnknownError, and NetworkError where nothing could be sent.
        """
        attempt = _Attempt()
        with trio.move_on_at(deadline):
            return await self._append(records, attempt)
        if attempt.may_have_taken_effect:
            raise OutcomeUnknownError(f"append: sent, but not confirmed in time: {attempt.problem}")
        raise NetworkError(f"append: not sent in time: {attempt.problem}")

    async def _append(self, records: Sequence[NewRecord], attempt: _Attempt) -> int:
        while True:
            identity = self._identity or await self._identify(attempt)
            # Given back when the batch's fate is known: no other batch may take its sequence numbers.
            self._identity = None
            answer = await self._send_until_answered(self._encode(records, identity), attempt)
            if answer.error == ErrorCode.none:
                identity.next_sequence = (identity.next_sequence + len(records)) % _SEQUENCES
                self._identity = identity
                return answer.base_offset
            attempt.problem = _describe(answer)
            if attempt.may_have_taken_effect:
                raise OutcomeUnknownError(f"append: sent more than once, then {attempt.problem}")
            if answer.error in _TOO_LARGE:
                raise RecordTooLargeError(f"append: {attempt.problem}")
            if answer.error not in _IDENTITY_LOST:
                raise RefusedError(f"append: {attempt.problem}")

    def _encode(self, records: Sequence[NewRecord], identity: _Identity) -> bytes:
        return encode_batch(
            records,
            timestamp_ms=self._wall_clock_ms(),
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=identity.next_sequence,
        )

    async def _identify(self, attempt: _Attempt) -> _Identity:
        """Get a producer id, from whoever gives one."""
        while True:
            try:
                leader = await self._leader.get()
                response = await ask(
                    leader.connection, INIT_PRODUCER_ID, InitProducerIdRequest(), self._settings.request_timeout_ms
                )
            except (NetworkError, UnsupportedVersionError) as error:
                attempt.problem = str(error)
            else:
                if response.error == ErrorCode.none:
                    return _Identity(response.producer_id, response.producer_epoch)
                attempt.problem = f"InitProducerId: {response.error.name}"
                if response.error not in TRY_AGAIN:
                    raise RefusedError(f"append: {attempt.problem}")
            await self._prepare_another()

    async def _send_until_answered(self, batch: bytes, attempt: _Attempt) -> ProducePartitionResponse:
        """Send the batch again and again, until a leader says something final about it."""
        while True:
            try:
                leader = await self._leader.get()
            except (NetworkError, UnsupportedVersionError) as error:
                attempt.problem = str(error)
            else:
                was_uncertain, attempt.may_have_taken_effect = attempt.may_have_taken_effect, True
                try:
                    answer = await self._send(leader, batch)
                except NetworkError as error:
                    attempt.problem = str(error)
                except UnsupportedVersionError:
                    attempt.may_have_taken_effect = was_uncertain
                    raise
                else:
                    if answer.error not in TRY_AGAIN:
                        attempt.may_have_taken_effect = was_uncertain
                        return answer
                    attempt.problem = _describe(answer)
            await self._prepare_another()

    async def _send(self, leader: Leader, batch: bytes) -> ProducePartitionResponse:
        timeout_ms = self._settings.request_timeout_ms
        partition = ProducePartition(
            topic_name=self._settings.topic_name, topic_id=leader.topic_id, partition=0, records=batch
        )
        request = ProduceRequest(acks=_WHEN_COMMITTED, timeout_ms=timeout_ms, partitions=(partition,))
        response = await ask(leader.connection, PRODUCE, request, 2 * timeout_ms)
        if len(response.partitions) != 1:
            raise NetworkError(f"Produce: answered for {len(response.partitions)} partitions, 1 was asked for")
        return response.partitions[0]

    async def _prepare_another(self) -> None:
        await self._leader.forget()
        await self._settings.back_off()


@attrs.define
class _Attempt:
    """What is known of one batch on its way."""

    may_have_taken_effect: bool = False
    problem: str = "there was no time"


def _describe(answer: ProducePartitionResponse) -> str:
    return f"Produce: {answer.error.name}" + (f": {answer.error_message}" if answer.error_message else "")
