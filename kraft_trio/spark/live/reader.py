"""`spark.readStream.format("kraft")`: streams the committed records of a live quorum."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
import pyarrow as pa
import trio
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.spark.live.fetching import LogRange, committed_batches
from kraft_trio.spark.live.options import SOURCE, LiveOptions, read_stream_options
from kraft_trio.spark.live.planning import committed_end, find_loss, first_position, newest_position
from kraft_trio.spark.live.position import UNKNOWN_EPOCH, StreamPosition, first_offset_between
from kraft_trio.spark.live.quorum import DataLossError, QuorumAddress, QuorumLeader, ask_leader, not_found
from kraft_trio.spark.live.ranges import plan_ranges
from kraft_trio.spark.live.retries import Retries
from kraft_trio.spark.live.row_makers import MakesRows, row_maker
from kraft_trio.spark.options import EARLIEST
from kraft_trio.spark.schemas import CHANGES

log = logging.getLogger(__name__)

T = TypeVar("T")

_WAIT_FOR_MORE_MS: Final = 500
"""Limit for the driver's wait for records or a leader.  Then it reports an empty batch, and Spark asks again."""


class LogPartition(InputPartition):
    """The work of one task."""

    def __init__(self, options: LiveOptions, wanted: LogRange) -> None:
        self.options = options
        self.wanted = wanted


def make_stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """The reader of `readStream`.  Raises ConfigError for unusable options and columns."""
    read = read_stream_options(options)
    return KraftStreamReader(read, row_maker(read, schema))


class KraftStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process of the driver; only `read` is called elsewhere, on copies.

    Spark calls one method at a time.  Each call finds the leader again, in its own event loop.
    """

    def __init__(self, options: LiveOptions, rows: MakesRows, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock_s = clock_s
        self._began_at_s = -math.inf
        """When the last micro-batch with records was planned."""
        self._rows = rows
        self._newest: StreamPosition | None = None
        """The last result of `latestOffset`, which has been checked against the log."""
        self._committed_end = 0
        """Exclusive, as of the last answer of the leader."""
        self._available: int | None = None
        """The end of an AvailableNow query, exclusive; None for other triggers."""
        self._topic_name: str | None = None
        self._nodes: tuple[Endpoint, ...] = ()
        """The voters' addresses in the last answer; all nodes in the option may be gone by now."""

    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a new query.  Raises NetworkError if no leader is found within `timeoutMs`."""

        async def question(leader: QuorumLeader) -> StreamPosition:
            return await first_position(leader, self._options.starting)

        return self._ask(question, self._options.address.timeout_ms).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end to what is committed now.  Raises NetworkError if no leader is found within `timeoutMs`."""

        async def question(leader: QuorumLeader) -> int:
            return committed_end(leader)

        self._available = self._ask(question, self._options.address.timeout_ms)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; `start`, with a warning, if the quorum cannot be reached.

        Raises OtherClusterError; DataLossError with failOnDataLoss=true; NetworkError with AvailableNow, whose query
        would otherwise end at `start`.
        """
        position = StreamPosition.of_json(start)
        is_available_now = self._available is not None
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None

        async def question(leader: QuorumLeader, begin: StreamPosition) -> StreamPosition:
            if not is_available_now and begin == position and committed_end(leader) == position.offset:
                await leader.fetch(position.offset, max_bytes=1, max_wait_ms=_WAIT_FOR_MORE_MS)
            self._committed_end = committed_end(leader)
            if self._available is not None and self._available < begin.offset:
                self._available = self._committed_end  # Who was asked for the end was behind.
            if begin == position and not is_available_now and self._is_too_little(self._committed_end - begin.offset):
                await leader.fetch(self._committed_end, max_bytes=1, max_wait_ms=_WAIT_FOR_MORE_MS)
                self._committed_end = committed_end(leader)
                if self._is_too_little(self._committed_end - begin.offset):
                    return position
            limits = [self._committed_end]
            limits += [] if most is None else [begin.offset + most]
            limits += [] if self._available is None else [self._available]
            return await newest_position(leader, begin, min(limits))

        try:
            patience_ms = self._options.address.timeout_ms if is_available_now else _WAIT_FOR_MORE_MS
            self._newest = self._ask_of(position, question, patience_ms)
        except NetworkError as error:
            if is_available_now:
                raise
            log.warning("no news of the log, the query continues when there are: %s", error)
            return start
        if self._newest != position:
            self._began_at_s = self._clock_s()
        return self._newest.as_json()

    def _is_too_little(self, offsets: int) -> bool:
        """Whether that many offsets wait for more, as `minOffsetsPerTrigger` says."""
        least = self._options.min_per_trigger
        waited_s = self._clock_s() - self._began_at_s
        return least is not None and 0 < offsets < least and waited_s < self._options.max_trigger_delay_ms / 1000

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The committed end, however much of it a micro-batch takes; Spark reports it as progress."""
        if self._newest is None:
            return None
        return {"source": self._described, "clusterId": self._newest.cluster_id, "offset": self._committed_end}

    @property
    def _described(self) -> str:
        """The source in readable form."""
        return f"{SOURCE}[{','.join(map(str, self._options.address.bootstrap))}]"

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch, always the same for the same arguments.

        A batch planned before a restart is checked against the log.  Raises like `latestOffset`.
        """
        to = StreamPosition.of_json(end)
        since = StreamPosition.of_json(start)
        begin = first_offset_between(since, to)
        if to != self._newest:
            self._ask_of(to, _nothing, self._options.address.timeout_ms)
        ranges = ranges_of(self._options, begin, to.offset)
        options = attrs.evolve(self._options, address=self._address)
        # After a loss, nobody knows what has changed; otherwise `latest` means that nobody asks.
        with_state = begin == to.began_at and (to.losses > 0 or options.starting == EARLIEST)
        epoch = since.epoch if begin == since.offset and since.losses == to.losses else UNKNOWN_EPOCH
        wanted = LogRange(to.cluster_id, begin, to.offset, self._topic_name, with_state, epoch)
        return [LogPartition(options, attrs.evolve(wanted, begin=one, end=end)) for one, end in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        return read_partition(partition, self._rows)

    @property
    def _address(self) -> QuorumAddress:
        return self._options.address.known_also_at(self._nodes)

    def _ask(
        self,
        question: Callable[[QuorumLeader], Awaitable[T]],
        patience_ms: int,
        when_lost: Callable[[QuorumLeader, str], Awaitable[T]] = not_found,
    ) -> T:
        async def asked(leader: QuorumLeader) -> T:
            self._nodes, self._topic_name = leader.nodes, leader.topic_name
            return await question(leader)

        return trio.run(ask_leader, self._address, asked, patience_ms, when_lost)

    def _ask_of(
        self,
        position: StreamPosition,
        question: Callable[[QuorumLeader, StreamPosition], Awaitable[T]],
        patience_ms: int,
    ) -> T:
        """Ask about the log after a position, or after the log's start if the position is lost.

        Raises DataLossError instead with failOnDataLoss=true, OtherClusterError, and NetworkError after `patience_ms`.
        """

        async def checked(leader: QuorumLeader) -> T:
            loss = await find_loss(leader, position)
            return await question(leader, position if loss is None else await self._after(loss, leader, position))

        async def after_loss(leader: QuorumLeader, loss: str) -> T:
            return await question(leader, await self._after(loss, leader, position))

        return self._ask(checked, patience_ms, after_loss)

    async def _after(self, loss: str, leader: QuorumLeader, position: StreamPosition) -> StreamPosition:
        """The log's start, with a warning.  Raises DataLossError with failOnDataLoss=true."""
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{loss} (failOnDataLoss=false continues at the log's start)")
        begins = await leader.log_start_offset()
        log.warning("%s; continuing at offset %d, the log's start (failOnDataLoss=false)", loss, begins)
        return position.after_loss(begins)


def ranges_of(options: LiveOptions, begin: int, end: int) -> list[tuple[int, int]]:
    """The ranges of the tasks.  Changes follow from each other, so that one task reads them."""
    if options.content == CHANGES:
        return [(begin, end)] if begin < end else []
    return list(plan_ranges(begin, end, options.min_partitions, options.max_per_partition))


async def _nothing(_leader: QuorumLeader, _begin: StreamPosition) -> None:
    """Only the check matters."""


def read_partition(partition: LogPartition, rows: MakesRows) -> Iterator[pa.RecordBatch]:
    """The rows of a task.  Raises like `committed_batches`."""
    options, wanted = partition.options, partition.wanted
    retries = Retries()
    rows = rows.of_task(wanted)
    for batch in rows.before():
        yield retries.noted(batch)
    for records in committed_batches(
        options.address, wanted, fail_on_data_loss=options.fail_on_data_loss, on_retry=retries.add
    ):
        for batch in rows.rows_of(records, wanted):
            yield retries.noted(batch)
    rows.end()
