"""What is forgotten of a file that is cached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kraft_trio.storage.disk.real_disk import RealDisk


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system forgets nothing")
def test_no_large_folio_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux keeps one that begins before the range, with what a failed fsync left in it."""
    advised: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _descriptor, *range_and_advice: advised.append(range_and_advice))
    disk = RealDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    file.append(bytes(10_000))
    file.forget_cached()
    assert advised == [(0, 0, os.POSIX_FADV_DONTNEED)]
    file.close()
    disk.close()
