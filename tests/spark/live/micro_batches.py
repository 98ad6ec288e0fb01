"""A streaming query without Spark: the reader's methods called as Spark calls them, without Java and in little time.

When stopped, it leaves its current micro-batch half read, like a driver that dies.  When started again, it has a new
reader and plans that batch again from the offsets in its checkpoint.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.quorum import Quorum
from harness.waiting import wait_until
from tests.spark.live.reading import Offset, Rows, latest_once, make_reader

SECONDS = 300.0


class MicroBatches:
    """The interface is that of ToParquet."""

    def __init__(self, quorum: Quorum, **options: str) -> None:
        """`options` are those of the source."""
        self._quorum = quorum
        self._options = options
        self._planned: list[Offset] = []
        """The end of each micro-batch: written down before it is read."""
        self._done = 0
        """How many of them have been read and their rows taken over."""
        self._rows: Rows = []
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self.starts = 0
        self.unstarted_workers = 0

    @property
    def micro_batches(self) -> int:
        return self._done

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the block runs; raises what the query has failed with."""
        self.starts += 1
        self._stopping.clear()
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()
        self.check()

    def check(self) -> None:
        """Raise what the query has failed with."""
        if self._error is not None:
            raise self._error

    def rows(self) -> Rows:
        """Those of the micro-batches that are done, in the order of the offsets."""
        return sorted(self._rows)

    def wait_until_written(self, offset: int) -> None:
        """Until a micro-batch with that offset is done.  Raises what the query fails with."""

        def written() -> bool:
            self.check()
            return self._done > 0 and self._planned[self._done - 1]["offset"] > offset

        wait_until(f"offset {offset} is written", written, SECONDS)

    def _run(self) -> None:
        try:
            self._micro_batches()
        except BaseException as error:
            self._error = error

    def _micro_batches(self) -> None:
        reader = make_reader(self._quorum, **self._options)
        start = self._planned[self._done - 1] if self._done else reader.initialOffset()
        while not self._stopping.is_set():
            if len(self._planned) == self._done:
                end = latest_once(reader, start)
                if end == start:
                    continue
                self._planned.append(end)
            end = self._planned[self._done]
            read: Rows = []
            for partition in reader.partitions(start, end):
                for batch in reader.read(partition):
                    read += zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
                if self._stopping.is_set():
                    return
            self._rows += read
            self._done += 1
            start = end
