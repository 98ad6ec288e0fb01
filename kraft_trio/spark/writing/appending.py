"""Appends the batches of a partition, each once, whatever the number of attempts and whoever leads."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

import attrs
import trio

from kraft_trio.client.leader_finder import LeaderFinder, LeaderKeeper
from kraft_trio.client.record_reader import RecordReader
from kraft_trio.errors import (
    NetworkError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    RecordTooLargeError,
    UnsupportedVersionError,
)
from kraft_trio.idempotent_producer import failure_of
from kraft_trio.protocol.producers import MAX_SEQUENCE
from kraft_trio.spark.live.quorum import CLIENT_ID, QuorumAddress
from kraft_trio.spark.writing.batches import RowBatch, first_difference
from kraft_trio.spark.writing.completeness import ELSE, RepeatedWriteError
from kraft_trio.spark.writing.identity import PartitionWrite
from kraft_trio.storage.batches.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, Record, encode_batch
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import TRY_AGAIN, ErrorCode
from kraft_trio.wire.network import Network

RETRY_BACKOFF_MS: Final = 50
_NOTHING: Final = -1

_OTHER_HISTORY: Final = {
    ErrorCode.out_of_order_sequence_number: (
        "the log has other batches of these rows: another attempt had more or fewer rows, or another maxBatchBytes"
    ),
    ErrorCode.unknown_producer_id: (
        "the log no longer knows the rows before these: more producers than kraft.producer.ids.max have written since"
    ),
    ErrorCode.invalid_producer_epoch: (
        "the log has rows of a later one: the checkpoint is older than the log, or txnVersion has fallen"
    ),
}


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@attrs.frozen
class Placed:
    """Where a batch is in the log."""

    base_offset: int | None
    """None if the log has it from an earlier attempt, and no longer knows where."""
    is_repeated: bool
    """Whether it was there already: from another attempt, or from this one if an answer was lost."""


def _place_of_another_attempt(answer: ProducePartitionResponse) -> int | None:
    """The offset at which a leader has the batch already, perhaps not committed; None if it does not say so."""
    if answer.error == ErrorCode.none:
        # As Kafka's leaders do, ours give a time only for a batch that they had before.
        return answer.base_offset if answer.log_append_time_ms >= 0 else None
    # The time of each attempt differs, and perhaps the order of its rows.
    has_other_bytes = answer.error == ErrorCode.out_of_order_sequence_number and answer.base_offset >= 0
    return answer.base_offset if has_other_bytes else None


class PartitionAppender:
    """Appends the batches of one partition in order, for one task.  `async with` closes its connections.

    Nothing else runs in the event loop, so it may be blocked while Spark produces rows.
    """

    def __init__(
        self,
        address: QuorumAddress,
        topic_name: str,
        write: PartitionWrite,
        *,
        network: Network | None = None,
        wall_clock_ms: Callable[[], int] = _system_clock_ms,
    ) -> None:
        """`address.timeout_ms` is the time for each batch.  `wall_clock_ms` gives the records their timestamps.

        Raises ConfigError for certificates that cannot be read.
        """
        self._address = address
        self._topic_name = topic_name
        self._write = write
        self._network = address.network() if network is None else network
        self._wall_clock_ms = wall_clock_ms
        self._random = random.Random()
        self._leader = self._leader_keeper()

    async def __aenter__(self) -> PartitionAppender:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leader.forget()

    async def append(self, batch: RowBatch) -> Placed:
        """Append a batch, or find that another attempt has; return when it is committed.

        Raises

        - RepeatedWriteError if the log has something else in its place,
        - RecordTooLargeError or RefusedError if a leader refuses it for another reason,
        - NetworkError if it could not be sent to a leader in time,
        - OutcomeUnknownError if it may be in the log.  The next attempt will find it.
        """
        if batch.first_row + len(batch.records) > MAX_SEQUENCE:
            raise RecordTooLargeError(f"{self._write}: more than {MAX_SEQUENCE} rows")
        encoded = encode_batch(
            batch.records,
            timestamp_ms=self._wall_clock_ms(),
            producer_id=self._write.producer_id,
            producer_epoch=self._write.producer_epoch,
            base_sequence=batch.first_row,
        )
        answer = await self._answer(encoded)
        lost: set[int] = set()
        while (place := _place_of_another_attempt(answer)) is not None:
            row = await self._difference(batch, place)
            if row is None:
                return Placed(place, is_repeated=True)
            if place in lost and row == _NOTHING:
                raise NetworkError(f"{self._write}: offset {place} was not read back: it is beyond the end of the log")
            if place in lost:
                raise RepeatedWriteError(
                    f"{self._write}, row {row}: another attempt has written another row, at offset "
                    f"{place + row - batch.first_row}, so the rows are not the same each time they are computed; {ELSE}"
                )
            # The leader that named the place may have lost the batch since, with its epoch.
            lost.add(place)
            answer = await self._answer(encoded)
        if answer.error == ErrorCode.none:
            return Placed(answer.base_offset, is_repeated=False)
        if answer.error == ErrorCode.duplicate_sequence_number or (
            answer.error == ErrorCode.out_of_order_sequence_number and answer.log_append_time_ms >= 0
        ):
            # It comes before the batches of this producer that are remembered.
            return Placed(None, is_repeated=True)
        reason = _OTHER_HISTORY.get(answer.error)
        if reason is not None:
            raise RepeatedWriteError(
                f"{self._write}, from row {batch.first_row} on: {reason} ({answer.error_message}); {ELSE}"
            )
        error = failure_of(answer)
        if isinstance(error, RecordTooLargeError):
            raise RecordTooLargeError(
                f"of the rows of this task from row {batch.first_row} on: {error} (maxBatchBytes, and the quorum's "
                "message.max.bytes)"
            )
        raise error

    async def _answer(self, encoded: bytes) -> ProducePartitionResponse:
        """Send a batch, as often as necessary, until a leader says what has become of it."""
        problem, is_sent = "there was no time", False
        with trio.move_on_after(self._address.timeout_ms / 1000):
            while True:
                try:
                    leader = await self._leader.find()
                    is_sent = True
                    answer = await leader.produce(encoded)
                except (NetworkError, UnsupportedVersionError) as error:
                    problem = str(error)
                else:
                    if answer.error not in TRY_AGAIN:
                        return answer
                    problem = f"Produce: {answer.error.name}" + (f": {answer.error_message or ''}".rstrip(": "))
                await self._leader.prepare_another()
        if is_sent:
            raise OutcomeUnknownError(f"{self._write}: sent, but not confirmed in time: {problem}")
        raise NetworkError(f"{self._write}: not sent in time: {problem}")

    async def _difference(self, batch: RowBatch, base_offset: int) -> int | None:
        """Read back what another attempt has appended.

        Returns the first row that is not there, and _NOTHING if the log ends before them.  Returns None if all
        rows are there, or were trimmed: the leader has checked their sequence numbers.  Raises NetworkError if they
        were not read in time.
        """
        reader = RecordReader(
            self._leader_keeper(), base_offset, base_offset + len(batch.records), DEFAULT_MAX_DECOMPRESSED_BYTES
        )
        stored: list[Record] = []
        try:
            with trio.move_on_after(self._address.timeout_ms / 1000) as time_limit:
                stored = [record async for record in reader]
        except OffsetOutOfRangeError as error:
            return None if error.is_trimmed else _NOTHING
        finally:
            await reader.aclose()
        if time_limit.cancelled_caught:
            raise NetworkError(f"{self._write}: offset {base_offset} was not read back in time")
        return first_difference(batch, stored)

    def _leader_keeper(self) -> LeaderKeeper:
        finder = LeaderFinder(
            self._address.bootstrap,
            CLIENT_ID,
            request_timeout_ms=self._address.request_timeout_ms,
            network=self._network,
            topic_name=self._topic_name,
            random_source=self._random,
        )
        return LeaderKeeper(finder, retry_backoff_ms=RETRY_BACKOFF_MS, random_source=self._random)
