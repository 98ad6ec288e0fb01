"""Keeps the leader from sending a snapshot that would end a replica of Apache Kafka."""

from __future__ import annotations

from kraft_trio.errors import ProtocolError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch_header import HEADER_BYTES, peek_header
from kraft_trio.storage.batches.kafka_readable import why_kafka_cannot_read
from kraft_trio.storage.disk.disk import DiskFile

log = get_logger(__name__)


class KafkaSnapshotCheck:
    """Judges snapshots piece by piece, before a Kafka replica gets the pieces.  A leader has one for its epoch."""

    def __init__(self) -> None:
        self._readable_up_to: dict[OffsetAndEpoch, int] = {}
        self._unreadable: set[OffsetAndEpoch] = set()

    def may_send(self, snapshot_id: OffsetAndEpoch, file: DiskFile, end: int) -> bool:
        """Whether Kafka can read all batches that begin before the position `end`.  Logs the first that it cannot.

        Damaged batches are left to the replica, which notices them.  Raises OSError.
        """
        if snapshot_id in self._unreadable:
            return False
        at, size = self._readable_up_to.get(snapshot_id, 0), file.size()
        while at < min(end, size):
            try:
                header = peek_header(file.read_at(at, HEADER_BYTES))
                reason = None
                if not header.is_control:
                    reason = why_kafka_cannot_read(file.read_at(at, header.size_in_bytes), 0, header)
            except ProtocolError:
                at = size
                break
            if reason is not None:
                log.warning("snapshot kept from Apache Kafka", snapshot_id=str(snapshot_id), at=at, reason=reason)
                self._unreadable.add(snapshot_id)
                return False
            at += header.size_in_bytes
        self._readable_up_to[snapshot_id] = at
        return True
