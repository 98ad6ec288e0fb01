"""A replica that passes for Apache Kafka's, and ends where Kafka would.

See docs/reference/kafka.md#records-that-kafka-can-read.

Its process runs this library's code.  It differs in two points: its connections name Kafka's software, and it reads
every batch of its log as Kafka does, on the way in and at each start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import iter_headers
from kraft_trio.storage.batches.kafka_readable import why_kafka_cannot_read
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.segments.log_append import PlannedBatch

SOFTWARE: Final = ("apache-kafka-java", "4.1.0")
"""Name and version, as Kafka's clients and replicas give them in ApiVersions."""


class StrictReader:
    """Watches the log of one process, and calls `ended` with a reason once it has a batch that Kafka cannot read."""

    def __init__(self, log: Log, ended: Callable[[str], None]) -> None:
        """Read what is in the log already."""
        self._log = log
        self._ended = ended
        log.watch(self)
        offset = log.log_start_offset
        if log.snapshots.newest is not None:
            self.replaced(log.snapshots.newest)
        while offset < log.end_offset:
            read = log.read(offset, 1)
            self._judge(read)
            offset = max(header.next_offset for _, header in iter_headers(read))

    def _judge(self, batches: Buffer) -> None:
        for position, header in iter_headers(batches):
            reason = None if header.is_control else why_kafka_cannot_read(batches, position, header)
            if reason is not None:
                self._ended(f"the batch at offset {header.base_offset}, {reason}")
                return

    # LogWatcher

    def appended(self, buffer: Buffer, batches: Sequence[PlannedBatch], path: str, position: int) -> None:
        self._judge(buffer)

    def replaced(self, snapshot_id: OffsetAndEpoch) -> None:
        file = self._log.snapshots.open(snapshot_id)
        try:
            self._judge(file.read_at(0, file.size()))
        finally:
            file.close()

    def truncated(self, end_offset: int) -> None: ...

    def trimmed(self, log_start_offset: int) -> None: ...

    def synced(self, end_offset: int) -> None: ...

    def high_watermark_advanced(self, old: int | None, new: int) -> None: ...
