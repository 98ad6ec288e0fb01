"""Finds replicas from paths and globs: the owner of each directory, and its segments and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import attrs

from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, directory_id_to_text
from kraft_trio.spark.directories.files import files_of, join, read_all
from kraft_trio.spark.file_system import REQUESTS_AT_A_TIME, Entry, Files, has_wildcard, printable
from kraft_trio.storage.directory.meta_properties import META_PROPERTIES, decode_meta_properties
from kraft_trio.storage.disk import partition_files

_PARTITION = "-0"
"""Suffix of the directory of partition 0, the only partition of a quorum."""
_KAFKAS_PARTITION = "__cluster_metadata-0"
_FOREIGN = "lost+found"
"""A directory that file systems make."""
_LARGEST_OFFSET = 2**63 - 1
_LARGEST_EPOCH = 2**31 - 1


@attrs.frozen
class StoredFile:
    """A segment or a snapshot, with its path and its size in bytes when listed."""

    path: str
    size: int


@attrs.frozen
class Replica:
    """The directory of one replica."""

    directory: str
    """As found through the path or glob."""
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None
    partition: str = ""
    """The directory of the log, or empty."""
    segments: tuple[tuple[int, StoredFile], ...] = ()
    """Sorted by first offset."""
    snapshots: tuple[tuple[OffsetAndEpoch, StoredFile], ...] = ()
    """By id, ascending."""
    other_names: frozenset[str] = frozenset()
    """The other files next to the segments."""
    error: str | None = None
    """A problem of the whole directory, or of its meta.properties."""

    @property
    def columns(self) -> dict[str, str | int | None]:
        """The values of the columns that every row of this replica begins with."""
        return {
            "directory": printable(self.directory),
            "cluster_id": self.cluster_id,
            "node": self.node_id,
            "directory_id": self.directory_id,
        }


def partition_topic(partition: str) -> str:
    """The topic of a partition's directory, from its name."""
    return partition.rstrip("/").rpartition("/")[2].removesuffix(_PARTITION)


def find_replicas(paths: Iterable[str], allow_mixed_clusters: bool) -> list[Replica]:
    """The replicas in these paths: node directories (metadata.log.dir), partition directories, or globs of them.

    A path without a replica becomes a replica with `error`, but a glob passes over the files that it matches, and over
    `lost+found`.  Several paths to one directory give one replica.  Raises
    ConfigError if no path leads to a replica, and for directories of different clusters unless they are allowed.
    """
    replicas: list[Replica] = []
    known: set[str] = set()
    with ThreadPoolExecutor(REQUESTS_AT_A_TIME) as pool:
        for found in pool.map(_listed, _directories(paths)):
            for identity, replica in found:
                if identity is None:
                    replicas.append(replica)
                elif identity not in known:
                    known.add(identity)
                    replicas.append(replica)
    if not any(replica.partition for replica in replicas):
        problems = "; ".join(replica.error or replica.directory for replica in replicas)
        raise ConfigError(f"no replica's directory among the paths: {printable(problems) or 'nothing but files'}")
    if not allow_mixed_clusters:
        _check_one_cluster(replicas)
    return replicas


def _directories(paths: Iterable[str]) -> Iterator[Replica | tuple[Files, str, bool]]:
    """What the paths lead to, and whether by a glob.  A path that leads to nothing is a replica with `error`."""
    for path in paths:
        files = files_of(path)
        try:
            found = files.expand(path)
        except OSError as error:
            yield Replica(path, error=_os_error(path, error))
            continue
        if not found:
            yield Replica(path, error=f"{path}: nothing matches")
        is_glob = has_wildcard(path) and found != [path]
        yield from ((files, directory, is_glob) for directory in found)


def _listed(place: Replica | tuple[Files, str, bool]) -> list[tuple[str | None, Replica]]:
    """The replicas there, and what identifies the place of each."""
    if isinstance(place, Replica):
        return [(None, place)]
    files, directory, is_glob = place
    if is_glob and directory.rpartition("/")[2] == _FOREIGN:
        return []
    found = _replicas_in(files, directory)
    if found is None:
        problem = f"{directory}: cannot be read: Not a directory"
        return [] if is_glob else [(None, Replica(directory, error=problem))]
    return [(files.identity(replica.partition or directory), replica) for replica in found]


def _replicas_in(files: Files, directory: str) -> list[Replica] | None:
    """The replicas in a directory; None if it is a file."""
    try:
        entries = files.entries(directory)
    except NotADirectoryError:
        return None
    except OSError as error:
        return [Replica(directory, error=_os_error(directory, error))]
    if _is_file(directory, entries):
        return None
    if _is_partition(entries):
        parent = directory.rpartition("/")[0] or "."
        replica = _identified(files, Replica(directory), parent, is_required=False)
        return [_with_files(replica, directory, entries)]
    partitions: list[tuple[str, list[Entry], str | None]] = []
    for entry in entries:
        if entry.is_directory and entry.name.endswith(_PARTITION):
            path = join(directory, entry.name)
            try:
                inner = files.entries(path)
            except OSError as error:
                partitions.append((path, [], _os_error(path, error)))
            else:
                if entry.name == _KAFKAS_PARTITION or _has_votes_or_snapshots(inner):
                    partitions.append((path, inner, None))
    if not partitions:
        what = "is empty" if not entries else "has no partition's directory, such as __cluster_metadata-0, in it"
        return [Replica(directory, error=f"{directory}: {what}; expected a node's metadata.log.dir or a partition's")]
    found = []
    for path, inner, problem in partitions:
        name = directory if len(partitions) == 1 else path
        replica = _identified(files, Replica(name, error=problem), directory, is_required=True)
        found.append(_with_files(replica, path, inner))
    return found


def _is_file(path: str, entries: list[Entry]) -> bool:
    """Whether these are the entries that fsspec lists of a file: the file itself."""
    return len(entries) == 1 and not entries[0].is_directory and entries[0].name == path.rpartition("/")[2]


def _is_partition(entries: list[Entry]) -> bool:
    names = [entry.name for entry in entries]
    return _has_votes_or_snapshots(entries) or bool(partition_files.offsets_of(names, partition_files.LOG))


def _has_votes_or_snapshots(entries: list[Entry]) -> bool:
    """Files that a quorum's partition has, and a broker's ordinary topic does not."""
    names = [entry.name for entry in entries]
    return partition_files.QUORUM_STATE in names or bool(partition_files.checkpoint_ids(names))


def _identified(files: Files, replica: Replica, directory: str, *, is_required: bool) -> Replica:
    """The replica, with the contents of its node's meta.properties."""
    path = join(directory, META_PROPERTIES)
    try:
        properties = decode_meta_properties(path, read_all(files, path))
    except FileNotFoundError:
        return replica
    except (OSError, StorageError) as error:
        text = _os_error(path, error) if isinstance(error, OSError) else str(error)
        return attrs.evolve(replica, error=replica.error or text) if is_required else replica
    id = properties.directory_id
    return attrs.evolve(
        replica,
        cluster_id=properties.cluster_id,
        node_id=properties.node_id,
        directory_id=None if id == NO_DIRECTORY_ID else directory_id_to_text(id),
    )


def _with_files(replica: Replica, partition: str, entries: list[Entry]) -> Replica:
    sizes = {entry.name: entry.size for entry in entries}

    def stored(name: str) -> StoredFile:
        return StoredFile(join(partition, name), sizes[name])

    offsets = partition_files.offsets_of(list(sizes), partition_files.LOG)
    segments = [(offset, stored(partition_files.offset_file_name(offset, partition_files.LOG))) for offset in offsets]
    ids = partition_files.checkpoint_ids(list(sizes))
    snapshots = [(id, stored(partition_files.checkpoint_name(id))) for id in ids]
    # Twenty digits can exceed an offset, and ten an epoch.
    problems = [] if replica.error is None else [replica.error]
    problems += [
        f"{file.path}: offset {offset} in its name, expected one up to {_LARGEST_OFFSET}"
        for offset, file in (*segments, *((id.offset, file) for id, file in snapshots))
        if offset > _LARGEST_OFFSET
    ]
    problems += [
        f"{file.path}: epoch {id.epoch} in its name, expected one up to {_LARGEST_EPOCH}"
        for id, file in snapshots
        if id.epoch > _LARGEST_EPOCH
    ]
    return attrs.evolve(
        replica,
        partition=partition,
        segments=tuple((offset, file) for offset, file in segments if offset <= _LARGEST_OFFSET),
        snapshots=tuple(
            (id, file) for id, file in snapshots if id.offset <= _LARGEST_OFFSET and id.epoch <= _LARGEST_EPOCH
        ),
        other_names=frozenset(sizes),
        error="; ".join(problems) or None,
    )


def _check_one_cluster(replicas: list[Replica]) -> None:
    first_of: dict[str, str] = {}
    for replica in replicas:
        if replica.cluster_id is not None:
            first_of.setdefault(replica.cluster_id, replica.directory)
    if len(first_of) > 1:
        found = printable(", ".join(f"{cluster_id} in {directory}" for cluster_id, directory in first_of.items()))
        raise ConfigError(
            f"directories of {len(first_of)} clusters: {found}; expected one, or the option allowMixedClusters=true"
        )


def _os_error(path: str, error: OSError) -> str:
    return f"{path}: cannot be read: {error.strerror or error}"
