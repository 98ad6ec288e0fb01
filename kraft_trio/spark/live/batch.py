"""`spark.read.format("kraft")` with bootstrapControllers: reads the committed records of a live quorum at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs
import pyarrow as pa
import trio
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from kraft_trio.protocol.types import Endpoint
from kraft_trio.spark.decoding.batch_filter import NO_END
from kraft_trio.spark.directories.filters import WhenAllowed, offsets_of
from kraft_trio.spark.exact_filters import ExactFilters
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.options import LiveOptions, read_batch_options
from kraft_trio.spark.live.planning import offset_at
from kraft_trio.spark.live.quorum import QuorumLeader, ask_leader
from kraft_trio.spark.live.reader import LogPartition, ranges_of, read_partition
from kraft_trio.spark.live.row_makers import MakesRows, row_maker
from kraft_trio.spark.options import EARLIEST
from kraft_trio.spark.schemas import CHANGES


def make_live_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Raises ConfigError for unusable options and columns."""
    read = read_batch_options(options)
    return LiveReader(read, row_maker(read, schema))


class LiveReader(DataSourceReader):
    """Reads from `startingOffsets` to `endingOffsets`, or to the committed end at planning time."""

    def __init__(self, options: LiveOptions, rows: MakesRows) -> None:
        self._options = options
        self._rows = rows
        self._exact = ExactFilters(dict(zip(rows.spelled, rows.schema.types, strict=True)))
        self._wanted = (0, NO_END)
        """The offsets that filters leave; the end is exclusive."""

    @property
    def pushFilters(self) -> WhenAllowed:
        """Reads only the offsets that filters leave, and applies what filters it can exactly."""
        return WhenAllowed(self._push)

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        known = dict(zip(self._rows.spelled, self._rows.schema.names, strict=True))
        for filter in filters:
            first, end = offsets_of(filter, known)
            if self._options.content == CHANGES:  # One counts with the end of its transaction, which may be later.
                end = NO_END
            self._wanted = max(self._wanted[0], first), min(self._wanted[1], end)
        return self._exact.push(filters)

    def partitions(self) -> list[InputPartition]:
        """Raises NetworkError if no leader is found within `timeoutMs`, OffsetOutOfRangeError."""

        async def question(leader: QuorumLeader) -> tuple[LogRange, tuple[Endpoint, ...]]:
            begin = await offset_at(leader, self._options.starting)
            end = await offset_at(leader, self._options.ending)
            first, last = self._wanted
            first, last = max(begin, first), min(end, last)
            with_state = first == begin and self._options.starting == EARLIEST
            return LogRange(leader.cluster_id, first, last, leader.topic_name, with_state), leader.nodes

        wanted, nodes = trio.run(ask_leader, self._options.address, question)
        options = attrs.evolve(self._options, address=self._options.address.known_also_at(nodes))
        ranges = ranges_of(options, wanted.begin, wanted.end)
        return [LogPartition(options, attrs.evolve(wanted, begin=begin, end=end)) for begin, end in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes its own partition if there is none.
        if not isinstance(partition, LogPartition):
            return iter(())
        return self._exact.rows_of(read_partition(partition, self._rows))
