"""The file `removed-voter`: the quorum has removed this incarnation from its voters.

The log says so, too, until it is trimmed, or replaced by a snapshot of Apache Kafka, which names no removed voters.
Without the file, a node that joins automatically would then undo the operator's removal.  The file has one line of JSON
and its CRC-32C, like quorum-state.  Kafka ignores it.
"""

from __future__ import annotations

import json

from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import ReplicaKey, directory_id_to_text
from kraft_trio.storage.directory.quorum_state import with_crc
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.failures import storage_failure
from kraft_trio.storage.disk.partition_files import REMOVED_VOTER

log = get_logger(__name__)


class RemovalMarker:
    """Of one partition's directory; one task changes it."""

    def __init__(self, disk: Disk, directory: str, key: ReplicaKey) -> None:
        """Read the file.  A damaged one counts: a node kept out by mistake can be added by hand.

        One that names another incarnation does not count: the directory was copied and given its own id.
        """
        self._disk = disk
        self._directory = directory
        self._path = join(directory, REMOVED_VOTER)
        self._content = with_crc(_line(key))
        self.is_set = False
        """Whether this incarnation's removal has committed, and no addition since."""
        try:
            found = disk.read_bytes(self._path)
        except FileNotFoundError:
            return
        line = found.partition(b"\n")[0]
        is_sound = with_crc(line) == found
        if not is_sound:
            log.warning("the mark of a removal is damaged, and counts", file=self._path)
        self.is_set = not is_sound or found == self._content

    async def set(self) -> None:
        """Write the file.  It is durable on return, even if the caller is cancelled.  Raises StorageFailure."""
        self.is_set = True
        try:
            await self._disk.replace(self._path, self._content)
        except OSError as error:
            raise storage_failure(f"{self._path}: cannot be written", error) from error

    def clear(self) -> None:
        """Remove the file.  Blocks for an fsync.  Raises StorageFailure."""
        self.is_set = False
        try:
            self._disk.remove(self._path)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            raise storage_failure(f"{self._path}: cannot be removed", error) from error


def _line(key: ReplicaKey) -> bytes:
    fields = {"replicaId": key.id, "directoryId": directory_id_to_text(key.directory_id), "data_version": 0}
    return json.dumps(fields, separators=(",", ":")).encode()
