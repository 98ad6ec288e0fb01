"""The mark that a read has found damage."""

from __future__ import annotations

import pytest

from kraft_trio.errors import StorageFailure
from kraft_trio.storage.checks.quarantine import note_damage, refuse_damaged
from tests.storage.grown_logs import grown, new_disk
from tests.storage.support import DIRECTORY


async def test_failing_disk_is_told_and_the_mark_stays() -> None:
    disk = new_disk()
    log = await grown(disk)
    await log.close()
    note_damage(disk, DIRECTORY, "position 5")
    disk.fail("open")
    with pytest.raises(StorageFailure, match="cannot be checked"):
        refuse_damaged(disk, DIRECTORY)
    assert "damaged" in disk.peek_names(DIRECTORY)
