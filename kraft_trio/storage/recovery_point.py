"""The file `recovery-point`: how far a log had been synced when its process or machine stopped.

A power failure may lose any part of the unsynced writes and keep later ones.  Such a hole, with whole batches after it,
looks like damage.  The recovery point tells the two apart: before it, the log is damaged; behind it, the log ends.

The file is one small record, overwritten in place after each sync of the log, and made durable once a second.  It may
lag, but must never be ahead: before a truncation it goes back durably.  A clean stop removes it, because the last known
good point then says the same.
"""

from __future__ import annotations

import re
from typing import Final

from crc32c import crc32c

from kraft_trio.logs import get_logger
from kraft_trio.storage import partition_files
from kraft_trio.storage.disk import Disk, DiskFile, join

log = get_logger(__name__)

DURABLE_EVERY_S: Final = 1.0
"""The longest time that the record on the device lags while the log grows."""

_VERSION: Final = 0
_RECORD: Final = re.compile(rb"(0\n([0-9]{20})\n)([0-9a-f]{8})\n")


def encode_recovery_point(offset: int) -> bytes:
    """Three lines of fixed length: the version, the offset (exclusive), the CRC-32C of the two lines before."""
    text = b"%d\n%020d\n" % (_VERSION, offset)
    return b"%b%08x\n" % (text, crc32c(text))


def decode_recovery_point(data: bytes) -> int | None:
    """Return the offset (exclusive); None if the record is torn or malformed."""
    match = _RECORD.fullmatch(data)
    if match is None or crc32c(match[1]) != int(match[3], 16):
        return None
    return int(match[2])


def read_recovery_point(disk: Disk, directory: str) -> int | None:
    """Return the offset (exclusive) up to which the log had been synced; None if unknown.  Raises OSError."""
    path = join(directory, partition_files.RECOVERY_POINT)
    if not disk.exists(path):
        return None
    offset = decode_recovery_point(disk.read_bytes(path))
    if offset is None:
        log.warning("recovery point ignored", file=path, reason="its CRC is wrong")
    return offset


class RecoveryPoint:
    """The recovery point of an open log, which owns it.  `offset` (exclusive) is never ahead of the synced end.

    Every method may raise OSError.  The log is then poisoned.
    """

    def __init__(self, disk: Disk, directory: str, offset: int) -> None:
        """Write `offset` durably.  Blocks for fsyncs."""
        self._disk = disk
        self._path = join(directory, partition_files.RECOVERY_POINT)
        self.offset = offset
        self._durable_at_s: float | None = None
        """When it was last made durable; None until the log's first sync."""
        self._file = self._open(encode_recovery_point(offset))
        try:
            # What another process wrote last may be in the page cache alone, and an fsync of it may have failed.
            self._file.sync_now()
            disk.sync_directory(directory)
        except BaseException:
            self._file.close()
            raise

    def _open(self, record: bytes) -> DiskFile:
        file = self._disk.open(self._path, create=True)
        try:
            if file.size() == len(record):
                file.overwrite(0, record)
            else:
                file.truncate(0)
                file.append(record)
        except BaseException:
            file.close()
            raise
        return file

    def advance(self, offset: int) -> None:
        """Note that the log has been synced up to `offset`.  Does not wait for the device."""
        self._file.overwrite(0, encode_recovery_point(offset))
        self.offset = offset

    async def sync_if_due(self, now_s: float) -> None:
        """Make the record durable if the last time is `DURABLE_EVERY_S` ago.  Waits like `DiskFile.sync`."""
        if self._durable_at_s is None:
            self._durable_at_s = now_s
        if now_s >= self._durable_at_s + DURABLE_EVERY_S:
            self._durable_at_s = now_s
            await self._file.sync()

    def go_back(self, offset: int) -> None:
        """Go back, durably, before the log is cut at `offset`.  Blocks for an fsync if the point is ahead."""
        if offset < self.offset:
            self._file.overwrite(0, encode_recovery_point(offset))
            self.offset = offset
            self._file.sync_now()

    def remove(self) -> None:
        """Remove the file at a clean stop, after a known good point was written."""
        self._disk.remove(self._path)

    def close(self) -> None:
        self._file.close()
