"""Writing to and reading from the log of a quorum, across changes of its leader."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType

import trio

from kraft_trio.client.arguments import MAX_INT32, check_number, check_type
from kraft_trio.client.leader_finder import Bootstrap, LeaderFinder, LeaderKeeper, bootstrap_endpoints
from kraft_trio.client.record_reader import RecordReader
from kraft_trio.errors import ClientClosedError, EncodeError, NetworkError, RecordTooLargeError
from kraft_trio.idempotent_producer import IdempotentProducer
from kraft_trio.storage.batches.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, NewRecord
from kraft_trio.storage.batches.new_record_check import check_new_record, largest_record_size
from kraft_trio.storage.batches.record_limits import BATCH_OVERHEAD_BYTES, MAX_RECORDS, RECORD_OVERHEAD_BYTES
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class LogClient:
    """A client of one quorum's log.  `async with` closes its connections.

    Any task may call.  Batches are appended one after the other, in the order of the calls.
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
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
        """`bootstrap` is any nodes of the quorum, as endpoints or as texts, such as "a:9093,b:9093".

        `max_batch_bytes` must not be above the quorum's `message.max.bytes`.  Raises ValueError if `bootstrap` is
        empty or has something else.
        """
        self._bootstrap = bootstrap_endpoints(bootstrap)
        self._topic_name = topic_name
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._network = TcpNetwork() if network is None else network
        self._random = random.Random() if random_source is None else random_source
        self._max_batch_bytes = max_batch_bytes
        self._max_decompressed_bytes = max_decompressed_bytes
        self._leader = self._leader_keeper()
        self._producer = IdempotentProducer(self._leader, wall_clock_ms)
        self._appending = trio.Lock()
        self._readers: list[RecordReader] = []
        self._is_closed = False

    def _leader_keeper(self) -> LeaderKeeper:
        finder = LeaderFinder(
            self._bootstrap,
            self._client_id,
            request_timeout_ms=self._request_timeout_ms,
            network=self._network,
            topic_name=self._topic_name,
            random_source=self._random,
        )
        return LeaderKeeper(finder, retry_backoff_ms=self._retry_backoff_ms, random_source=self._random)

    async def __aenter__(self) -> LogClient:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection, including the connections of readers.  Later calls raise ClientClosedError.

        So do those under way, unless what they have sent may take effect.
        """
        self._is_closed = True
        await self._leader.aclose()
        for reader in self._readers:
            await reader.aclose()
        self._readers.clear()

    async def produce(self, values: Sequence[bytes | NewRecord], timeout_ms: int = 30_000) -> tuple[int, ...]:
        """Append values in order, wait until they have committed, and return the offset of each.

        A value that has a key or headers is given as a NewRecord.  Values that do not fit one batch go into several
        batches, one after the other; if a batch fails, the batches before it are in the log.  Each value takes effect
        at most once, however often the client sends it.  Raises

        - EncodeError for a value that is not bytes, and RecordTooLargeError for one that fits no batch; nothing is
          appended,
        - RefusedError if a leader refuses a batch,
        - NetworkError if no leader took a batch within `timeout_ms`; nothing of that batch is in the log,
        - OutcomeUnknownError if a batch was sent and its fate is not known when `timeout_ms` is over, or when the
          client is closed,
        - ClientClosedError if the client is closed; nothing of the batch is in the log.

        A cancelled call may or may not have appended.
        """
        self._check_open("produce")
        if isinstance(values, str | bytes | NewRecord):
            raise TypeError(f"values: {type(values).__name__}, expected a list of values")
        check_number("timeout_ms", timeout_ms, MAX_INT32, at_least=0)
        batches = split_into_batches(list(map(_checked, values)), self._max_batch_bytes)
        offsets: list[int] = []
        deadline = trio.current_time() + timeout_ms / 1000
        await self._wait_for_turn(deadline)
        try:
            for batch in batches:
                base_offset = await self._producer.append(batch, deadline)
                offsets += range(base_offset, base_offset + len(batch))
        finally:
            self._appending.release()
        return tuple(offsets)

    async def _wait_for_turn(self, deadline: float) -> None:
        try:
            self._appending.acquire_nowait()
        except trio.WouldBlock:
            with trio.move_on_at(deadline):
                await self._appending.acquire()
                return
            raise NetworkError("produce: not sent in time: earlier calls were under way") from None

    def read(self, from_offset: int = 0, until: int | None = None) -> RecordReader:
        """Read the committed records from `from_offset` (inclusive) to `until` (exclusive, None for without end).

        The reader waits for records that are not there yet, and for a leader while there is none.  Offsets have gaps
        where the protocol's own records are.  The reader raises OffsetOutOfRangeError if `from_offset` is not in the
        log.  Its connection stays open until the reader reaches its end or the client is closed.  Raises
        ClientClosedError if it is closed already.
        """
        self._check_open("read")
        check_type("from_offset", from_offset, int, "an offset")
        if until is not None:
            check_type("until", until, int, "an offset or None")
        reader = RecordReader(self._leader_keeper(), from_offset, until, self._max_decompressed_bytes)
        self._readers = [*(other for other in self._readers if not other.ended), reader]
        return reader

    def _check_open(self, call: str) -> None:
        if self._is_closed:
            raise ClientClosedError(f"{call}: the client is closed")


def _checked(value: bytes | NewRecord) -> NewRecord:
    record = value if isinstance(value, NewRecord) else NewRecord(value)
    try:
        check_new_record(record)
    except ValueError as error:
        raise EncodeError(f"value: not appended: {error}") from None
    return record


def split_into_batches(values: Sequence[bytes | NewRecord], max_batch_bytes: int) -> list[list[NewRecord]]:
    """Divide the values, in order, into as few batches as hold them.  Raises RecordTooLargeError."""
    batches: list[list[NewRecord]] = []
    size = max_batch_bytes
    for index, value in enumerate(values):
        record = value if isinstance(value, NewRecord) else NewRecord(value)
        record_size = largest_record_size(record)
        if BATCH_OVERHEAD_BYTES + record_size > max_batch_bytes:
            size = record_size - RECORD_OVERHEAD_BYTES
            raise RecordTooLargeError(f"values[{index}]: {size} bytes do not fit a batch of {max_batch_bytes}")
        if size + record_size > max_batch_bytes or len(batches[-1]) == MAX_RECORDS:
            batches.append([])
            size = BATCH_OVERHEAD_BYTES
        batches[-1].append(record)
        size += record_size
    return batches
