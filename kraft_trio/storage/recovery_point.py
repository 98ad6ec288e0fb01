"""How far a log had been synced when its process or its machine stopped: what tells damage from a torn tail.

A power failure may take any part of what was not synced and leave what lies behind it: a hole, with whole batches
after it, looks like damage to what had been written long ago.  The recovery point, Kafka's idea, tells them apart.
Damage before it is damage; from it on a hole is the end of the log.

It is one small record, overwritten in place after each sync of the log, and made durable once a second: one that is
behind vouches for less.  It must never be ahead, which is why it goes back, durably, before the log does.  After a
clean stop there is none: then the last known good point says the same, and the directory is as Kafka would leave it.
"""

from __future__ import annotations

import re
from typing import Final

import structlog
from crc32c import crc32c

from kraft_trio.storage import partition_files
from kraft_trio.storage.disk import Disk, DiskFile, join

log = structlog.get_logger(__name__)

DURABLE_EVERY_S: Final = 1.0
"""How far behind the record on the device may be, at most, while the log grows: damage to what was synced before that
cannot be taken for a write that a power failure lost."""

_VERSION: Final = 0
_RECORD: Final = re.compile(rb"(0\n([0-9]{20})\n)([0-9a-f]{8})\n")


def encode_recovery_point(offset: int) -> bytes:
    """Three lines of fixed length: the version, the offset (exclusive), the CRC-32C of the two lines before."""
    text = b"%d\n%020d\n" % (_VERSION, offset)
    return b"%b%08x\n" % (text, crc32c(text))


def decode_recovery_point(data: bytes) -> int | None:
    """The offset (exclusive); None where the record is torn or is none."""
    match = _RECORD.fullmatch(data)
    if match is None or crc32c(match[1]) != int(match[3], 16):
        return None
    return int(match[2])


def read_recovery_point(disk: Disk, directory: str) -> int | None:
    """Up to which offset (exclusive) the log had been synced; None where that is not known.  Raises OSError."""
    path = join(directory, partition_files.RECOVERY_POINT)
    if not disk.exists(path):
        return None
    offset = decode_recovery_point(disk.read_bytes(path))
    if offset is None:
        log.warning("recovery point ignored", file=path, reason="its CRC is wrong")
    return offset


class RecoveryPoint:
    """The record of an open log, which owns it: `offset` (exclusive) is never ahead of what the log has synced.

    Every method may raise OSError, after which the log must be taken for poisoned.
    """

    def __init__(self, disk: Disk, directory: str, offset: int) -> None:
        """Make the record durable, and say `offset` from now on.  Blocks for fsyncs."""
        self._disk = disk
        self._path = join(directory, partition_files.RECOVERY_POINT)
        self.offset = offset
        self._durable_at_s: float | None = None
        """When it was last made durable; None until the first sync of the log, for when it was opened."""
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
        """The log has been synced up to there.  Does not wait for the device."""
        self._file.overwrite(0, encode_recovery_point(offset))
        self.offset = offset

    async def sync_if_due(self, now_s: float) -> None:
        """Make it durable where that was long ago, by Trio's clock.  Waits for the fsync to end, as `DiskFile.sync`."""
        if self._durable_at_s is None:
            self._durable_at_s = now_s
        if now_s >= self._durable_at_s + DURABLE_EVERY_S:
            self._durable_at_s = now_s
            await self._file.sync()

    def go_back(self, offset: int) -> None:
        """The log is about to be cut at `offset`.  Blocks for an fsync, unless the point is not ahead of that."""
        if offset < self.offset:
            self._file.overwrite(0, encode_recovery_point(offset))
            self.offset = offset
            self._file.sync_now()

    def remove(self) -> None:
        """The log ends cleanly, its end vouched for by a known good point."""
        self._disk.remove(self._path)

    def close(self) -> None:
        self._file.close()
