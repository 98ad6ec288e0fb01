"""A failed fsync of the real disk is told for ever, to whoever asks (scenario S12)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kraft_trio.storage.real_disk import RealDisk


async def test_a_later_sync_does_not_succeed_where_an_earlier_one_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of a failed write-back once for an open file; a second caller would hear of a success."""
    disk = RealDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    try:
        file.append(b"x")

        def fails(_descriptor: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as failing:
            failing.setattr(os, "fdatasync", fails)
            with pytest.raises(OSError, match="Input/output"):
                await file.sync()
        with pytest.raises(OSError, match="Input/output"):
            file.sync_now()
        with pytest.raises(OSError, match="Input/output"):
            await file.sync()
    finally:
        file.close()
        disk.close()
