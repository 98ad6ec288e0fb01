"""The node's directory (`metadata.log.dir`): formatted once, locked while a process uses it."""

from __future__ import annotations

import random
from types import TracebackType
from uuid import UUID

import attrs

from kraft_trio.errors import StorageError, UnavailableDirectoryError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_to_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.directory.known_identity import (
    ONLY_A_QUORUMS,
    PARTITION_SUFFIX,
    known_directory_id,
    quorum_state_in,
)
from kraft_trio.storage.directory.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    NewerVersionError,
    decode_meta_properties,
    encode_meta_properties,
)
from kraft_trio.storage.disk.disk import DirectoryLock, Disk, join
from kraft_trio.storage.disk.partition_files import QUORUM_STATE
from kraft_trio.storage.snapshots.checkpoint import write_bootstrap_checkpoint

log = get_logger(__name__)

LOCK = ".lock"
RESTORING = "restoring"
"""In a directory to which a snapshot is being restored.  Without meta.properties next to it, that was interrupted."""
_MOUNT_OR_FORMAT = "mount its disk, or format it if the node is new (kraft storage format, or ensure_formatted)"
RESERVED_DIRECTORY_IDS = 100
"""Kafka reserves this many of the lowest UUIDs."""


def random_directory_id(random_source: random.Random) -> UUID:
    """Return a random (version 4) UUID that is not reserved and does not start with "-" as text."""
    while True:
        candidate = UUID(int=random_source.getrandbits(128), version=4)
        if candidate.int >= RESERVED_DIRECTORY_IDS and candidate.bytes[0] >> 2 != 62:
            return candidate


def partition_path(directory: str, topic_name: str) -> str:
    """Where the one partition's files are."""
    return join(directory, f"{topic_name}{PARTITION_SUFFIX}")


def refuse_other_topic(disk: Disk, directory: str, topic_name: str) -> None:
    """Raise StorageError if the directory was formatted for, or has run with, a topic of another name.

    A second log next to the first would never find a leader: the other voters answer for their own topic alone.
    """
    if disk.exists(partition_path(directory, topic_name)):
        return
    for name in disk.list_directory(directory):
        path = join(directory, name)
        if not name.endswith(PARTITION_SUFFIX):
            continue
        try:
            names = disk.list_directory(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        # Formatting makes an empty one for a node that is to join.
        if not names or ONLY_A_QUORUMS & set(names):
            raise StorageError(
                f"{path}: this directory belongs to kraft.topic.name={name.removesuffix(PARTITION_SUFFIX)}, but "
                f"kraft.topic.name={topic_name} is configured: correct the configuration, or format another directory"
            )


def read_meta_properties(disk: Disk, directory: str, node_id: int | None = None) -> MetaProperties | None:
    """Return the content of meta.properties; None if the directory is not formatted.

    Raises StorageError.  If the file is damaged, or missing where a node has run, the error says how to restore it for
    that node.  It says so if a restore was interrupted.
    """
    path = join(directory, META_PROPERTIES)
    try:
        data = disk.read_bytes(path)
    except FileNotFoundError:
        if node_id is not None and disk.exists(join(directory, RESTORING)):
            raise _interrupted_restore(path) from None
        state = None if node_id is None else quorum_state_in(disk, directory)
        if node_id is None or state is None:
            return None
        raise StorageError(
            f"{path}: missing, expected next to {state}: a node has run here; "
            f"{_how_to_restore(disk, directory, node_id)}"
        ) from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        return decode_meta_properties(path, data)
    except StorageError as error:
        if node_id is None or isinstance(error, NewerVersionError):
            raise
        raise StorageError(f"{error}; {_how_to_restore(disk, directory, node_id)}") from error


def _interrupted_restore(path: str) -> StorageError:
    return StorageError(f"{path}: missing, next to {RESTORING}: a restore was interrupted; restore the snapshot again")


def _how_to_restore(disk: Disk, directory: str, node_id: int) -> str:
    known = known_directory_id(disk, directory, node_id)
    lines = ["version=1", f"node.id={node_id}", "cluster.id=… (as on the other nodes)"]
    lines += [] if known is None else [f"{known.line} (as in {known.path})"]
    return f"restore the file from a copy, or write it again: {', '.join(lines)}"


def refuse_lost_directory_id(disk: Disk, directory: str, properties: MetaProperties) -> None:
    """Raise StorageError if meta.properties has no directory id, but another file of the directory tells it.

    Files before KIP-853 have none; the partition then names none either.
    """
    if properties.directory_id != NO_DIRECTORY_ID:
        return
    known = known_directory_id(disk, directory, properties.node_id)
    if known is not None:
        raise StorageError(
            f"{join(directory, META_PROPERTIES)}: directory.id is not there, but {known.path} has that of node "
            f"{properties.node_id}: add the line {known.line}; or format the node again, if its disk was replaced and "
            "it was not added again since"
        )


def lock_new_directory(disk: Disk, directory: str, to_be: str) -> DirectoryLock:
    """Make a node's directory unless it exists, and lock it.  Raises StorageError, which says what it cannot be."""
    try:
        disk.make_directory(directory)
        return disk.lock(join(directory, LOCK))
    except OSError as error:
        raise StorageError(f"{directory}: cannot be {to_be}: {error.strerror or error}") from error


def format_directory(
    disk: Disk,
    directory: str,
    *,
    cluster_id: str,
    node_id: int,
    directory_id: UUID,
    topic_name: str,
    voters: VoterSet | None,
    kraft_version: int,
    timestamp_ms: int,
) -> None:
    """Format a node's directory: the topic's partition, the initial voters' bootstrap checkpoint, meta.properties.

    meta.properties comes last: without it the directory does not count as formatted.  Raises StorageError if it is
    formatted already or in use, which changes nothing, or if it cannot be written.
    """
    lock = lock_new_directory(disk, directory, "formatted")
    try:
        formatted = read_meta_properties(disk, directory)
        if formatted is not None:
            raise StorageError(
                f"{directory}: already formatted for node {formatted.node_id} of cluster {formatted.cluster_id}"
            )
        if disk.exists(join(directory, RESTORING)):
            raise _interrupted_restore(join(directory, META_PROPERTIES))
        # Also for a node that is to join: it says which topic the directory is for.
        partition = partition_path(directory, topic_name)
        disk.make_directory(partition)
        if voters is not None:
            write_bootstrap_checkpoint(disk, partition, voters, kraft_version, timestamp_ms)
        properties = MetaProperties(cluster_id, node_id, directory_id)
        disk.replace_now(join(directory, META_PROPERTIES), encode_meta_properties(properties))
    except OSError as error:
        raise StorageError(f"{directory}: cannot be formatted: {error.strerror or error}") from error
    finally:
        lock.release()


@attrs.frozen
class LockedDirectory:
    """A formatted directory that no other process can use until the `with` block ends."""

    path: str
    meta_properties: MetaProperties
    _lock: DirectoryLock

    @classmethod
    def open(cls, disk: Disk, directory: str, node_id: int, random_source: random.Random | None) -> LockedDirectory:
        """Lock the directory, and check that it belongs to the node.

        Changes nothing without a `random_source`.  With one, a directory formatted before directory ids existed gets
        one now.  Raises StorageError if it is missing, not formatted or another node's, or has lost its directory id;
        AlreadyLockedError if another process uses it.
        """
        try:
            if not disk.exists(directory):
                raise UnavailableDirectoryError(f"{directory}: there is no such directory; {_MOUNT_OR_FORMAT}")
            if not disk.exists(join(directory, META_PROPERTIES)):
                disk.list_directory(directory)  # raises OSError if this is a file
                read_meta_properties(disk, directory, node_id)
                raise UnavailableDirectoryError(f"{directory}: not formatted; {_MOUNT_OR_FORMAT}")
            lock = disk.lock(join(directory, LOCK))
        except OSError as error:
            raise UnavailableDirectoryError(f"{directory}: cannot be used: {error.strerror or error}") from error
        try:
            properties = _own_properties(disk, directory, node_id, random_source)
            if random_source is not None:
                _end_restore(disk, directory)
        except BaseException:
            lock.release()
            raise
        return cls(directory, properties, lock)

    def partition_path(self, topic_name: str) -> str:
        return partition_path(self.path, topic_name)

    def quorum_state_path(self, topic_name: str) -> str:
        return join(self.partition_path(topic_name), QUORUM_STATE)

    def __enter__(self) -> LockedDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()


def _end_restore(disk: Disk, directory: str) -> None:
    """A restore was complete.  From now on, nothing may take what is here for its leftovers."""
    path = join(directory, RESTORING)
    try:
        if disk.exists(path):
            disk.remove(path)
            disk.sync_directory(directory)
    except OSError as error:
        raise UnavailableDirectoryError(f"{path}: cannot be removed: {error.strerror or error}") from error


def _own_properties(disk: Disk, directory: str, node_id: int, random_source: random.Random | None) -> MetaProperties:
    properties = read_meta_properties(disk, directory, node_id)
    assert properties is not None, "checked before the lock was taken"
    if properties.node_id != node_id:
        raise StorageError(f"{directory}: formatted for node {properties.node_id}, not for node.id={node_id}")
    if properties.directory_id == NO_DIRECTORY_ID:
        refuse_lost_directory_id(disk, directory, properties)
        if random_source is None:
            return properties
        properties = attrs.evolve(properties, directory_id=random_directory_id(random_source))
        log.info("new directory id", directory=directory, directory_id=directory_id_to_text(properties.directory_id))
        try:
            disk.replace_now(join(directory, META_PROPERTIES), encode_meta_properties(properties))
        except OSError as error:
            raise UnavailableDirectoryError(f"{directory}: cannot be written: {error.strerror or error}") from error
    return properties
