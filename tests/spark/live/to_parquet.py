"""A streaming query that writes what it reads to Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from harness.quorum import Quorum
from harness.waiting import wait_until
from tests.spark.live.reading import Rows

SECONDS = 300.0
"""A micro-batch takes seconds where the machine is busy."""


NO_WORKER = "Python worker failed to connect back"
"""What a query fails with that Spark has given no ten seconds of processor time: it waits no longer for its workers."""


class ToParquet:
    """A query that appends what it reads to Parquet files, and can be stopped and started again from its checkpoint."""

    def __init__(self, spark: SparkSession, quorum: Quorum, directory: Path, **options: str) -> None:
        """`options` are those of the source; bootstrapControllers is all nodes of the quorum where it is not given."""
        reader = spark.readStream.format("kraft").options(
            **{"bootstrapControllers": quorum.bootstrap_servers, **options}
        )
        self._rows = reader.load().select("offset", "value")
        self._spark = spark
        self._query: StreamingQuery | None = None
        self.output = directory / "output"
        self.checkpoint = directory / "checkpoint"
        self.starts = 0
        self.unstarted_workers = 0
        """How often it failed for NO_WORKER, and was started again."""

    @property
    def micro_batches(self) -> int:
        """How many are done."""
        return len(list((self.checkpoint / "commits").glob("[0-9]*")))

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the block runs; raises what the query has failed with."""
        self.starts += 1
        self._start()
        try:
            yield
            self.check()
        finally:
            if self._query is not None:
                self._query.stop()
                self._query = None

    def check(self) -> None:
        """Raise what the query has failed with; start it again where the machine was too busy for it."""
        failure = self._query.exception() if self._query is not None else None
        if failure is None:
            return
        if NO_WORKER not in str(failure):
            raise failure
        self.unstarted_workers += 1
        self._start()

    def rows(self) -> Rows:
        """Everything that was written by micro-batches that are whole, in the order of the offsets."""
        read = self._spark.read.parquet(str(self.output)).collect()
        return sorted((row["offset"], None if row["value"] is None else bytes(row["value"])) for row in read)

    def wait_until_written(self, offset: int) -> None:
        """Until a micro-batch with that offset is done.  Raises what the query fails with."""

        def written() -> bool:
            self.check()
            progress = None if self._query is None else self._query.lastProgress
            return progress is not None and json.loads(progress["sources"][0]["endOffset"])["offset"] > offset

        wait_until(f"offset {offset} is written", written, SECONDS, 0.1)

    def _start(self) -> None:
        writing = self._rows.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        self._query = writing.start(str(self.output))
