"""What a snapshot has that was fetched from a leader."""

from __future__ import annotations

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import decode_records
from kraft_trio.storage.snapshots.snapshot_reader import read_batches


class _Memory:
    """A snapshot in memory; see `SnapshotSource`."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = memoryview(data)

    def size(self) -> int:
        return len(self._data)

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._data[position : position + size])


def values_in(data: bytes | bytearray, id: OffsetAndEpoch) -> list[bytes]:
    """The values of the application's records in their order.  Raises ProtocolError unless the snapshot is whole."""
    return [
        record.value or b""
        for batch in read_batches(_Memory(data), id.epoch)
        if not batch.header.is_control
        for record in decode_records(batch.data, 0, batch.header)
    ]
