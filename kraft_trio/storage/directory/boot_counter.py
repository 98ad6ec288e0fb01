"""The file `boot-counter`: how often a process on this directory has advertised itself.

See docs/explanation/protocol.md#gossip.

One line of JSON and its CRC-32C, like quorum-state, replaced atomically and durably.  Kafka ignores it.
"""

from __future__ import annotations

import json

from kraft_trio.logs import get_logger
from kraft_trio.storage.directory.quorum_state import with_crc
from kraft_trio.storage.disk.disk import Disk, join

log = get_logger(__name__)

BOOT_COUNTER = "boot-counter"


class BootCounter:
    """A number that only grows, in one node's directory; one task changes it."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Read the file.  A missing, damaged or unreadable one counts as 0: peers that know a higher number tell it."""
        self._disk = disk
        self._path = join(directory, BOOT_COUNTER)
        self.value = 0
        try:
            found = disk.read_bytes(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("the boot counter cannot be read, and begins again", file=self._path, reason=str(error))
            return
        line = found.partition(b"\n")[0]
        value = _boot(line) if with_crc(line) == found else None
        if value is None:
            log.warning("the boot counter is damaged, and begins again", file=self._path)
        else:
            self.value = value

    async def raise_to(self, value: int) -> None:
        """Store a higher number durably; it counts once it is stored.  Raises OSError."""
        assert value > self.value, f"boot {value} after {self.value}"
        line = json.dumps({"boot": value, "data_version": 0}, separators=(",", ":")).encode()
        await self._disk.replace(self._path, with_crc(line))
        self.value = value


def _boot(line: bytes) -> int | None:
    """The number in the line, or None if it has none."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    value = fields.get("boot") if isinstance(fields, dict) else None
    return value if type(value) is int and value >= 0 else None
