"""Finds the id and the cluster of a snapshot file; the file itself contains neither.

For a node's own snapshot, the id is in the file name and the cluster in `meta.properties`, two directories up.  A saved
snapshot has both in `<name>.properties` next to it.
"""

from __future__ import annotations

import os
import re
from contextlib import closing

import attrs
import javaproperties

from kraft_trio.errors import CorruptSnapshotError, ProtocolError, StorageError
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import peek_header
from kraft_trio.storage.batches.batch_header import HEADER_BYTES
from kraft_trio.storage.directory.directory import read_meta_properties
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.disk.partition_files import checkpoint_ids

_SUFFIX = ".properties"
_NUMBER = re.compile(r"[0-9]{1,19}")


@attrs.frozen
class SnapshotOrigin:
    """The id and cluster of a snapshot file; None if unknown."""

    snapshot_id: OffsetAndEpoch | None
    cluster_id: str | None


def origin_path(path: str) -> str:
    """The path of the note next to a snapshot file."""
    return path + _SUFFIX


def write_origin(disk: Disk, path: str, snapshot_id: OffsetAndEpoch, cluster_id: str | None) -> None:
    """Write the note next to the file, durably.  Raises OSError."""
    lines = {"snapshot.end.offset": str(snapshot_id.offset), "snapshot.epoch": str(snapshot_id.epoch)}
    if cluster_id is not None:
        lines["cluster.id"] = cluster_id
    disk.replace_now(origin_path(path), javaproperties.dumps(lines, timestamp=False).encode("latin-1"))


def find_origin(disk: Disk, path: str) -> SnapshotOrigin:
    """Read the note next to the file, or else its name and its node's directory.  Raises StorageError for a bad
    note."""
    note = origin_path(path)
    if disk.exists(note):
        return _read_note(note, disk.read_bytes(note))
    ids = checkpoint_ids([os.path.basename(path)])
    properties = read_meta_properties(disk, os.path.dirname(os.path.dirname(os.path.abspath(path))))
    return SnapshotOrigin(ids[0] if ids else None, None if properties is None else properties.cluster_id)


def first_epoch(disk: Disk, path: str) -> int:
    """The epoch of the file's first batch, which is the epoch of its id.  Raises CorruptSnapshotError, OSError."""
    with closing(disk.open_to_read(path)) as opened:
        try:
            return peek_header(opened.read_at(0, HEADER_BYTES)).leader_epoch
        except ProtocolError as error:
            raise CorruptSnapshotError(f"{path}: {error}") from error


def _read_note(path: str, data: bytes) -> SnapshotOrigin:
    try:
        fields = javaproperties.loads(data.decode("latin-1"))
    except ValueError as error:
        raise StorageError(f"{path}: not a .properties file: {error}") from None
    numbers = []
    for key in ("snapshot.end.offset", "snapshot.epoch"):
        text = fields.get(key, "")
        if _NUMBER.fullmatch(text) is None:
            raise StorageError(f"{path}: {key}={text}, expected a whole number, 0 or more")
        numbers.append(int(text))
    return SnapshotOrigin(OffsetAndEpoch(*numbers), fields.get("cluster.id"))
