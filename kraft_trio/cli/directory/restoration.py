"""Builds a new one-voter cluster from a snapshot of another cluster, of kraft-trio or Apache Kafka.

The records are copied byte for byte under the snapshot's id, so offsets continue where they were.  Anything that the
old cluster committed after the snapshot is missing.  The old cluster may live on, so epochs begin far beyond its own:
no pair of epoch and offset, and no producer id (derived from the epoch), can occur in both.  Only the voters are
rewritten: the single voter is the new node, with a new directory id.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Final
from uuid import UUID

import attrs

from kraft_trio.cli.directory.recovery import EPOCH_STEP
from kraft_trio.config import NodeConfig
from kraft_trio.errors import ConfigError, DiskFullError, StorageError, StorageFailure
from kraft_trio.protocol.epoch_limits import MAX_EPOCH
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS, VoterSet
from kraft_trio.storage.batches.batch import encode_control_batch, patch_base_offset_and_epoch
from kraft_trio.storage.checks.partition_check import read_records
from kraft_trio.storage.directory.directory import LOCK, RESTORING, lock_new_directory, partition_path
from kraft_trio.storage.directory.meta_properties import META_PROPERTIES, MetaProperties, encode_meta_properties
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.failures import is_disk_full
from kraft_trio.storage.disk.part_file import PartFile
from kraft_trio.storage.disk.partition_files import QUORUM_STATE, checkpoint_name
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, SnapshotSummary, open_snapshot, summarize
from kraft_trio.storage.snapshots.snapshot_writer import CHECKPOINT_MODE, first_records

_NOT_COUNTED: Final = frozenset({"lost+found", LOCK, f"{RESTORING}.tmp"})
"""Names that do not make a directory non-empty."""

OnBytes = Callable[[int], None]


@attrs.frozen
class Restoration:
    """What will be written.  If `voters` is None, they are static (kraft.version 0)."""

    file: str
    summary: SnapshotSummary
    cluster_id: str
    key: ReplicaKey
    voters: VoterSet | None

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        return self.summary.snapshot_id

    @property
    def epoch(self) -> int:
        """The epoch stored in quorum-state; the node's first election is for the next one."""
        return (self.snapshot_id.epoch // EPOCH_STEP + 1) * EPOCH_STEP

    @property
    def control_state(self) -> ControlState:
        return attrs.evolve(self.summary.control_state, voters=self.voters)


def plan_restoration(
    disk: Disk,
    config: NodeConfig,
    file: str,
    snapshot_id: OffsetAndEpoch,
    *,
    cluster_id: str,
    directory_id: UUID,
    on_bytes: OnBytes,
) -> Restoration:
    """Check every byte of the snapshot, and that the node can be built from it.  Writes nothing.

    Raises CorruptSnapshotError, ConfigError, StorageError if the node's directory is not empty, OSError.
    """
    if "controller" not in config.process_roles:
        raise ConfigError(f"process.roles={','.join(config.process_roles)}: expected controller for a voter")
    _check_directory(disk, config)
    with closing(open_snapshot(disk, file, snapshot_id)) as batches:
        summary = summarize(snapshot_id, read_records(batches, on_bytes, file))
    if summary.snapshot_id.epoch > MAX_EPOCH - 4 * EPOCH_STEP:
        raise StorageError(f"{file}: its epoch {summary.snapshot_id.epoch} leaves none to restore in")
    version = summary.control_state.kraft_version
    if version > SUPPORTED_KRAFT_VERSIONS.maximum:
        raise StorageError(
            f"{file}: kraft.version {version}, supported are {SUPPORTED_KRAFT_VERSIONS.minimum} to "
            f"{SUPPORTED_KRAFT_VERSIONS.maximum}"
        )
    key = ReplicaKey(config.node_id, directory_id)
    static = ",".join(map(str, config.quorum_voters))
    if version == 0:
        if [voter.id for voter in config.quorum_voters] != [config.node_id]:
            raise ConfigError(
                f"controller.quorum.voters={static}: the snapshot has kraft.version 0, which keeps the voters in "
                f"the configuration; expected this node alone, {config.node_id}@host:port"
            )
        return Restoration(file, summary, cluster_id, key, None)
    if config.quorum_voters:
        raise ConfigError(
            f"controller.quorum.voters={static}: the snapshot has kraft.version {version}, which keeps the "
            "voters in the log; expected controller.quorum.bootstrap.servers instead"
        )
    return Restoration(file, summary, cluster_id, key, VoterSet([config.as_voter(directory_id)]))


async def restore(disk: Disk, config: NodeConfig, plan: Restoration, *, on_bytes: OnBytes, now_ms: int) -> None:
    """Write the directory.  `meta.properties` comes last, so an incomplete directory does not count as formatted.

    What an interrupted attempt has left, as RESTORING tells, is removed first.  Raises StorageError if the directory is
    no longer empty, StorageFailure if it cannot be written.
    """
    directory = config.metadata_log_dir
    lock = lock_new_directory(disk, directory, "restored to")
    try:
        _check_directory(disk, config)
        partition, restoring = partition_path(directory, config.topic_name), join(directory, RESTORING)
        disk.replace_now(restoring, b"")
        disk.make_directory(partition)
        for leftover in disk.list_directory(partition):
            disk.remove(join(partition, leftover))
        await _write_snapshot(disk, join(partition, checkpoint_name(plan.snapshot_id)), plan, on_bytes)
        await _make_log(disk, config, partition, plan, now_ms)
        state = ElectionState(plan.epoch)
        quorum_state = QuorumStateFile(disk, join(partition, QUORUM_STATE))
        await quorum_state.write(state, plan.control_state.kraft_version, config.static_voter_set())
        properties = MetaProperties(plan.cluster_id, plan.key.id, plan.key.directory_id)
        disk.replace_now(join(directory, META_PROPERTIES), encode_meta_properties(properties))
        with suppress(OSError):  # The directory is complete, and the start removes it, too.
            disk.remove(restoring)
            disk.sync_directory(directory)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFullError(f"{directory}: not restored: {error}; free space there, then restore again") from error
        raise StorageFailure(f"{directory}: not restored: {error}") from error
    finally:
        lock.release()


def _check_directory(disk: Disk, config: NodeConfig) -> None:
    """Raises StorageError unless the directory is empty, or has nothing but what an interrupted attempt has left.

    The parent directory must exist: if it is missing, the file system may not be mounted.
    """
    directory = config.metadata_log_dir
    above = os.path.dirname(os.path.abspath(directory))
    if not disk.exists(above):
        raise StorageError(f"{directory}: cannot be restored to: there is no directory {above}")
    names = set(disk.list_directory(directory)) - _NOT_COUNTED if disk.exists(directory) else set()
    partition = partition_path(directory, config.topic_name)
    if META_PROPERTIES not in names and _has_no_records(disk, partition, is_restore=RESTORING in names):
        names -= {os.path.basename(partition), RESTORING, f"{META_PROPERTIES}.tmp"}
    if names:
        found = META_PROPERTIES if META_PROPERTIES in names else min(names)
        raise StorageError(
            f"{directory}: holds {found}; expected an empty or missing directory: nothing is overwritten"
        )


def _has_no_records(disk: Disk, partition: str, *, is_restore: bool) -> bool:
    """Whether the topic's directory is empty, or has what a restore makes: a snapshot, and a log without records."""
    if not disk.exists(partition):
        return is_restore
    names = disk.list_directory(partition)
    if not is_restore:
        return not names
    for name in names:
        if name.endswith(".log"):
            with closing(disk.open_to_read(join(partition, name))) as file:
                if file.size():
                    return False
    return True


async def _write_snapshot(disk: Disk, path: str, plan: Restoration, on_bytes: OnBytes) -> None:
    part = PartFile(disk, path, mode=CHECKPOINT_MODE)
    try:
        async with part:
            with closing(_batches(disk, plan)) as batches:
                for batch in batches:
                    await part.append(batch)
                    on_bytes(len(batch))
            await part.finish()
    except BaseException:
        await part.abandon()
        raise


def _batches(disk: Disk, plan: Restoration) -> Generator[bytes, None, None]:
    """The file's batches.  The first one is rewritten, which may shift the offsets of the others."""
    moved_by = 0
    for batch in open_snapshot(disk, plan.file, plan.snapshot_id):
        if batch.position == 0:
            records = first_records(plan.control_state)
            moved_by = len(records) - batch.header.record_count
            yield encode_control_batch(
                records, timestamp_ms=batch.header.base_timestamp_ms, leader_epoch=plan.snapshot_id.epoch
            )
        else:
            data = bytearray(batch.data)
            patch_base_offset_and_epoch(data, 0, batch.header.base_offset + moved_by, plan.snapshot_id.epoch)
            yield bytes(data)


async def _make_log(disk: Disk, config: NodeConfig, partition: str, plan: Restoration, now_ms: int) -> None:
    """Open the log that begins where the snapshot ends.  Opening creates it, and proves that it opens."""
    log = Log.open(
        disk,
        partition,
        topic_id=config.topic_id,
        static_voters=config.static_voter_set(),
        config=LogConfig(
            segment_bytes=config.segment_bytes, segment_ms=config.segment_ms, max_producers=config.max_producer_ids
        ),
        now_ms=lambda: now_ms,
    )
    try:
        assert log.end == plan.snapshot_id, f"the log ends at {log.end}"
        assert plan.voters is None or log.voters.voters == plan.voters, "the new voter is in force"
    finally:
        await log.close()
