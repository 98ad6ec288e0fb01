"""The file `recovery-point`: how far a log had been synced, and was known to be committed, when its process ended.

A power failure may lose any part of the unsynced writes and keep later ones.  Such a hole, with whole batches after it,
looks like damage.  The recovery point tells the two apart: before it, the log is damaged; behind it, the log ends.

The high watermark in it is never above what this log has synced, so opening the log takes it for a promise, too.  It
also lets a later process say which of the records that it truncates were committed once.

The file is one small record, overwritten in place after each sync of the log, and made durable once a second.  It may
lag, but must never be ahead: before a truncation it goes back durably.  A clean stop takes the synced end out of it,
because the last known good point then says the same, and another program may append next.
"""

from __future__ import annotations

import re
from typing import Final

import attrs
from crc32c import crc32c

from kraft_trio.logs import get_logger
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Disk, DiskFile, join

log = get_logger(__name__)

DURABLE_EVERY_S: Final = 1.0
"""The longest time that the record on the device lags while the log grows."""

_UNKNOWN: Final = b"-" * 20
_RECORD: Final = re.compile(rb"(1\n([0-9]{20}|-{20})\n([0-9]{20}|-{20})\n)([0-9a-f]{8})\n")
_OLDER_RECORD: Final = re.compile(rb"(0\n([0-9]{20})\n)()([0-9a-f]{8})\n")
"""Version 0 had no high watermark."""


@attrs.frozen
class RecoveryRecord:
    """What the file says.  Both offsets are exclusive, and None if unknown."""

    synced_end_offset: int | None = None
    """The log had been synced up to here."""
    high_watermark: int | None = None
    """Everything before it was known to be committed."""


def encode_recovery_point(record: RecoveryRecord) -> bytes:
    """Four lines of fixed length: the version, the two offsets, the CRC-32C of the three lines before."""
    offsets = (record.synced_end_offset, record.high_watermark)
    text = b"1\n%b\n%b\n" % tuple(_UNKNOWN if offset is None else b"%020d" % offset for offset in offsets)
    return b"%b%08x\n" % (text, crc32c(text))


def decode_recovery_point(data: bytes) -> RecoveryRecord | None:
    """Read the file.  None if the record is torn or malformed."""
    match = _RECORD.fullmatch(data) or _OLDER_RECORD.fullmatch(data)
    if match is None or crc32c(match[1]) != int(match[4], 16):
        return None
    synced, committed = (int(text) if text.isdigit() else None for text in match.group(2, 3))
    return RecoveryRecord(synced, committed)


def read_recovery_point(disk: Disk, directory: str) -> RecoveryRecord:
    """Return what the file says; nothing is known without a sound one.  Raises OSError."""
    path = join(directory, partition_files.RECOVERY_POINT)
    if not disk.exists(path):
        return RecoveryRecord()
    record = decode_recovery_point(disk.read_bytes(path))
    if record is None:
        log.warning("recovery point ignored", file=path, reason="its CRC is wrong")
        return RecoveryRecord()
    return record


class RecoveryPoint:
    """The recovery point of an open log, which owns it.  `offset` (exclusive) is never ahead of the synced end.

    What writes or opens the file may raise OSError.  The log is then poisoned, unless `write` finds the disk full.
    """

    def __init__(self, disk: Disk, directory: str, offset: int, high_watermark: int | None) -> None:
        """Write both durably.  Blocks for fsyncs."""
        self._disk = disk
        self._path = join(directory, partition_files.RECOVERY_POINT)
        self.offset = offset
        self.high_watermark = high_watermark
        """The highest one that this or an earlier process knew (exclusive), unless a truncation went below it."""
        self._durable_at_s: float | None = None
        """When it was last made durable; None until the log's first sync."""
        self._is_written = True
        """Whether the file tells what it should."""
        self._file = self._open(self._record())
        try:
            # What another process wrote last may be in the page cache alone, and an fsync of it may have failed.
            self._file.sync_now()
            disk.sync_directory(directory)
        except BaseException:
            self._file.close()
            raise

    def _record(self) -> bytes:
        """What other voters have synced may be committed, but is no promise of this log."""
        committed = None if self.high_watermark is None else min(self.high_watermark, self.offset)
        return encode_recovery_point(RecoveryRecord(self.offset, committed))

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
        """Note that the log has been synced up to `offset`, for the next `write`."""
        self.offset = offset
        self._is_written = False

    def note_high_watermark(self, offset: int, *, waits_for_sync: bool) -> None:
        """Note that everything before `offset` is committed, for the next `write`, or for that after the next sync.

        The file does not tell more than the log has synced.
        """
        if self.high_watermark is None or offset > self.high_watermark:
            self.high_watermark = offset
            self._is_written = self._is_written and waits_for_sync

    def write(self) -> None:
        """Write what was noted.  Does not wait for the device."""
        if not self._is_written:
            self._file.overwrite(0, self._record())
            self._is_written = True

    def must_sync(self, now_s: float) -> bool:
        """Whether the file was last synced `DURABLE_EVERY_S` ago or earlier.  The first call counts as a sync."""
        if self._durable_at_s is None:
            self._durable_at_s = now_s
        return now_s >= self._durable_at_s + DURABLE_EVERY_S

    async def sync(self, now_s: float) -> None:
        """Make durable what the file tells.  Waits like `DiskFile.sync`."""
        self._durable_at_s = now_s
        await self._file.sync()

    def go_back(self, offset: int) -> None:
        """Go back, durably, before the log is cut at `offset`.  Blocks for an fsync if anything noted is ahead."""
        if offset < max(self.offset, self.high_watermark or 0):
            self.offset = min(self.offset, offset)
            self.high_watermark = None if self.high_watermark is None else min(self.high_watermark, offset)
            self._file.overwrite(0, self._record())
            self._is_written = True
            self._file.sync_now()

    def end(self) -> None:
        """Take the synced end out of the file at a clean stop, after a known good point was written.

        Removes the file if nothing is left to say.
        """
        if self.high_watermark is None:
            self._disk.remove(self._path)
            return
        self._file.overwrite(0, encode_recovery_point(RecoveryRecord(None, self.high_watermark)))

    def close(self) -> None:
        self._file.close()
