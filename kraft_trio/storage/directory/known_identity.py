"""What the other files of a node's directory say of its identity, if meta.properties has lost it.

A voter with another directory id is another voter: it votes for nobody in the old one's name, and a sole voter never
leads again.  So a lost id is not made up for by a new one as long as a file tells which one it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final
from uuid import UUID

import attrs

from kraft_trio.errors import CorruptSnapshotError, ProtocolError, StorageError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_to_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import check_crc, decode_control_batch, peek_header
from kraft_trio.storage.batches.control_records import VotersRecord
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.disk import partition_files
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.snapshots.snapshot_reader import open_snapshot

PARTITION_SUFFIX: Final = "-0"
ONLY_A_QUORUMS: Final = frozenset({partition_files.QUORUM_STATE, partition_files.BOOTSTRAP_CHECKPOINT})
"""Files that only the partition of a quorum's topic has, among the partitions in a directory of Kafka."""


@attrs.frozen
class KnownId:
    """A directory id that a file gives to a node."""

    directory_id: UUID
    path: str

    @property
    def line(self) -> str:
        """The line of meta.properties."""
        return f"directory.id={directory_id_to_text(self.directory_id)}"


def known_directory_id(disk: Disk, directory: str, node_id: int) -> KnownId | None:
    """Return the newest directory id that a partition's files give to the node; None if they name none.

    The node's vote for itself comes first, because no other file is about this very directory.  Then comes the newest
    voter set that names the node, in the log or else in a snapshot.  It may be an earlier incarnation, if the disk was
    replaced and the new one was not added yet.  Files that cannot be read count as silent.  Raises OSError.
    """
    looks: tuple[Callable[[Disk, str, int], KnownId | None], ...] = (_own_vote, _in_log, _in_checkpoints)
    for partition in _partitions(disk, directory):
        for look in looks:
            found = look(disk, partition, node_id)
            if found is not None:
                return found
    return None


def quorum_state_in(disk: Disk, directory: str) -> str | None:
    """Return the path of a partition's quorum-state, which a node writes when it first runs; None if there is none."""
    if not disk.exists(directory):
        return None
    paths = (join(partition, partition_files.QUORUM_STATE) for partition in _partitions(disk, directory))
    return next((path for path in paths if disk.exists(path)), None)


def _partitions(disk: Disk, directory: str) -> Iterator[str]:
    for name in disk.list_directory(directory):
        path = join(directory, name)
        if name.endswith(PARTITION_SUFFIX):
            try:
                names = set(disk.list_directory(path))
            except (FileNotFoundError, NotADirectoryError):
                continue
            if names & ONLY_A_QUORUMS:
                yield path


def _own_vote(disk: Disk, partition: str, node_id: int) -> KnownId | None:
    path = join(partition, partition_files.QUORUM_STATE)
    try:
        state = QuorumStateFile(disk, path).read()
    except StorageError:
        return None
    voted = None if state is None else state.voted_key
    if voted is None or voted.id != node_id or voted.directory_id == NO_DIRECTORY_ID:
        return None
    return KnownId(voted.directory_id, path)


def _in_log(disk: Disk, partition: str, node_id: int) -> KnownId | None:
    for offset in reversed(partition_files.offsets_of(disk.list_directory(partition), partition_files.LOG)):
        path = join(partition, partition_files.offset_file_name(offset, partition_files.LOG))
        newest: KnownId | None = None
        with closing(disk.open_to_read(path)) as file, file.view() as view:
            for voters in _voters_in(view):
                newest = _id_in(voters, node_id, path) or newest
        if newest is not None:
            return newest
    return None


def _voters_in(view: memoryview) -> Iterator[VoterSet]:
    """The voter sets in a segment, up to the first damage."""
    position = 0
    while position < len(view):
        try:
            header = peek_header(view, position)
            records = []
            if header.is_control:
                check_crc(view, position, header)
                records = list(decode_control_batch(view, position, header))
        except ProtocolError:
            return
        yield from (record.voters for _, record in records if isinstance(record, VotersRecord))
        position += header.size_in_bytes


def _in_checkpoints(disk: Disk, partition: str, node_id: int) -> KnownId | None:
    for snapshot_id in reversed(partition_files.checkpoint_ids(disk.list_directory(partition))):
        path = join(partition, partition_files.checkpoint_name(snapshot_id))
        try:
            with closing(open_snapshot(disk, path, snapshot_id)) as batches:
                records = next(batches).control_records
        except (CorruptSnapshotError, StopIteration):
            continue
        for record in records:
            found = _id_in(record.voters, node_id, path) if isinstance(record, VotersRecord) else None
            if found is not None:
                return found
    return None


def _id_in(voters: VoterSet, node_id: int, path: str) -> KnownId | None:
    voter = voters.get(node_id)
    if voter is None or voter.key.directory_id == NO_DIRECTORY_ID:
        return None
    return KnownId(voter.key.directory_id, path)
