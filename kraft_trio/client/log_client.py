"""Writing to and reading from the log of a quorum, across changes of its leader."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final

import trio

from kraft_trio.client.connecting import RefusedError
from kraft_trio.client.idempotent_producer import IdempotentProducer
from kraft_trio.client.leader_connection import ClientSettings
from kraft_trio.client.record_reader import OffsetOutOfRangeError, RecordReader
from kraft_trio.errors import RecordTooLargeError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.storage.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, NewRecord
from kraft_trio.storage.record_limits import MAX_RECORDS
from kraft_trio.wire.network import Network, TcpNetwork

__all__ = ["LogClient", "OffsetOutOfRangeError", "RefusedError"]

BATCH_OVERHEAD_BYTES: Final = 61
RECORD_OVERHEAD_BYTES: Final = 21
"""The most that a record without key and headers takes besides its value."""


_FIELD_OVERHEAD_BYTES: Final = 10
"""The most that the length of a key, of a header's name or of its value takes, or a timestamp of its own."""


def _largest_size(record: NewRecord) -> int:
    """What the record takes in a batch, at most."""
    size = RECORD_OVERHEAD_BYTES + len(record.value or b"")
    if record.key is not None:
        size += _FIELD_OVERHEAD_BYTES + len(record.key)
    if record.timestamp_ms is not None:
        size += _FIELD_OVERHEAD_BYTES
    for name, value in record.headers:
        size += 2 * _FIELD_OVERHEAD_BYTES + len(name.encode()) + len(value or b"")
    return size


def split_into_batches(values: Sequence[bytes | NewRecord], max_batch_bytes: int) -> list[list[NewRecord]]:
    """The values in their order, as few batches as hold them within the limit.  Raises RecordTooLargeError."""
    batches: list[list[NewRecord]] = []
    size = max_batch_bytes
    for index, value in enumerate(values):
        record = value if isinstance(value, NewRecord) else NewRecord(value)
        record_size = _largest_size(record)
        if BATCH_OVERHEAD_BYTES + record_size > max_batch_bytes:
            size = record_size - RECORD_OVERHEAD_BYTES
            raise RecordTooLargeError(f"values[{index}]: {size} bytes do not fit a batch of {max_batch_bytes}")
        if size + record_size > max_batch_bytes or len(batches[-1]) == MAX_RECORDS:
            batches.append([])
            size = BATCH_OVERHEAD_BYTES
        batches[-1].append(record)
        size += record_size
    return batches


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class LogClient:
    """A client of one quorum's log; `async with` closes its connections.

    Appends of one client happen one batch after the other, in the order of the calls; any task may call.
    """

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        *,
        topic_name: str = "__cluster_metadata",
        client_id: str = "kraft-log-client",
        request_timeout_ms: int = 2000,
        retry_backoff_ms: int = 50,
        max_batch_bytes: int = 1048588,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        network: Network | None = None,
        random_source: random.Random | None = None,
        wall_clock_ms: Callable[[], int] = _system_clock_ms,
    ) -> None:
        """`bootstrap` is any nodes of the quorum; `max_batch_bytes` not above the quorum's `message.max.bytes`.

        Raises ValueError where `bootstrap` is empty.
        """
        if not bootstrap:
            raise ValueError("bootstrap: no endpoint given, at least one expected")
        self._settings = ClientSettings(
            bootstrap=tuple(bootstrap),
            topic_name=topic_name,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            network=TcpNetwork() if network is None else network,
            random=random.Random() if random_source is None else random_source,
        )
        self._max_batch_bytes = max_batch_bytes
        self._max_decompressed_bytes = max_decompressed_bytes
        self._producer = IdempotentProducer(self._settings, wall_clock_ms)
        self._appending = trio.Lock()
        self._readers: list[RecordReader] = []

    async def __aenter__(self) -> LogClient:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection, those of readers included."""
        await self._producer.aclose()
        for reader in self._readers:
            await reader.aclose()
        self._readers.clear()

    async def produce(self, values: Sequence[bytes | NewRecord], timeout_ms: int = 30_000) -> tuple[int, ...]:
        """Append values in their order and wait until they are committed; the offset of each.

        A value that is to have a key or headers is a NewRecord.

        What does not fit one batch goes into several, one after the other; where the append of one fails, those before
        it are in the log.  Each value takes effect at most once, whatever is tried again.  Raises

        - RecordTooLargeError for a value that fits no batch; nothing is appended,
        - RefusedError where the leader refuses for good,
        - NetworkError where no leader took a batch within `timeout_ms`; nothing of that batch is in the log,
        - OutcomeUnknownError where a batch was sent and `timeout_ms` ended before its fate was known.

        A cancelled call may or may not have appended.
        """
        batches = split_into_batches(values, self._max_batch_bytes)
        offsets: list[int] = []
        deadline = trio.current_time() + timeout_ms / 1000
        async with self._appending:
            for batch in batches:
                base_offset = await self._producer.append(batch, deadline)
                offsets += range(base_offset, base_offset + len(batch))
        return tuple(offsets)

    def read(self, from_offset: int = 0, until: int | None = None) -> RecordReader:
        """The committed records from `from_offset` (inclusive) on, to `until` (exclusive) or for ever.

        Waits for records that are not there yet, and for a leader where there is none.  Offsets have gaps where the
        protocol's own records stand.  Raises OffsetOutOfRangeError where the log does not begin before `from_offset`.
        Its connection stays open until the reader has come to its end or the client is closed.
        """
        reader = RecordReader(self._settings, from_offset, until, self._max_decompressed_bytes)
        self._readers = [*(other for other in self._readers if not other.ended), reader]
        return reader
