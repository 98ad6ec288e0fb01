"""Reads what a node's directory holds without changing it: identity, voters, log, snapshots and election state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import attrs
import trio

from kraft_trio.cli.directory.recovery import past_recoveries
from kraft_trio.cli.directory.static_voters_recovery import refusal_of_static_voters
from kraft_trio.cli.terminal.json_option import id_fields, key_fields
from kraft_trio.cli.terminal.output import counted
from kraft_trio.cli.terminal.progress import Bar, progress
from kraft_trio.config import NodeConfig
from kraft_trio.errors import StorageError
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, ReplicaKey, directory_id_to_text
from kraft_trio.storage.directory.directory import partition_path, read_meta_properties, refuse_lost_directory_id
from kraft_trio.storage.directory.meta_properties import MetaProperties
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.directory.quorum_state_check import refuse_missing_quorum_state
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import (
    LOG,
    QUORUM_STATE,
    checkpoint_ids,
    checkpoint_name,
    offset_file_name,
    offsets_of,
)
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, SnapshotBatch, open_snapshot, summarize


@attrs.define
class DirectoryInfo:
    """The readable contents of a directory, and the problems found in it."""

    directory: str
    meta_properties: MetaProperties | None = None
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    """Oldest first."""
    snapshot_bytes: dict[OffsetAndEpoch, int] = attrs.field(factory=dict)
    snapshot_voters: ControlState | None = None
    segments: tuple[int, ...] = ()
    """The first offsets of the log's segments."""
    log_bytes: int = 0
    election_state: ElectionState | None = None
    recoveries: tuple[str, ...] = ()
    """Descriptions of what `kraft storage recover` has done."""
    problems: list[str] = attrs.field(factory=list)

    def lines(self) -> Iterator[str]:
        """The text of `kraft storage info`: the layout of kafka-storage, followed by what kafka-storage leaves out."""
        yield from ("Found log directory:", f"  {self.directory}", "")
        if self.meta_properties is not None:
            yield f"Found metadata: {_meta_text(self.meta_properties)}"
            yield from self._partition_lines()
        if self.problems:
            yield ""
            yield "Found problem:" if len(self.problems) == 1 else "Found problems:"
            yield from (f"  {problem}" for problem in self.problems)

    def fields(self) -> dict[str, Any]:
        """The same for programs; None for what is not there or cannot be read."""
        properties, state, control = self.meta_properties, self.election_state, self.snapshot_voters
        voters = None if control is None else control.voters
        return {
            "directory": self.directory,
            "clusterId": None if properties is None else properties.cluster_id,
            "node": None if properties is None else key_fields(ReplicaKey(properties.node_id, properties.directory_id)),
            "snapshots": [
                {"snapshotId": id_fields(one), "bytes": self.snapshot_bytes.get(one)} for one in self.snapshots
            ],
            "kraftVersion": None if control is None else control.kraft_version,
            "voters": None if voters is None else [key_fields(voter.key) for voter in voters],
            "segments": len(self.segments),
            "logStartOffset": self.segments[0] if self.segments else None,
            "logBytes": self.log_bytes,
            "epoch": None if state is None else state.epoch,
            "leaderId": None if state is None else state.leader_id,
            "vote": None if state is None or state.voted_key is None else key_fields(state.voted_key),
            "recoveries": self.recoveries,
            "problems": self.problems,
        }

    def _partition_lines(self) -> Iterator[str]:
        if self.snapshots:
            yield f"Newest snapshot: {self._snapshot_text(self.snapshots[-1])}"
        if len(self.snapshots) > 1:
            yield f"Older snapshots: {'; '.join(map(self._snapshot_text, reversed(self.snapshots[:-1])))}"
        if self.snapshot_voters is not None:
            voters = self.snapshot_voters.voters
            yield f"Snapshot's kraft.version: {self.snapshot_voters.kraft_version}"
            if voters is not None:
                yield f"Snapshot's voters: {', '.join(str(voter.key) for voter in voters)}"
        if self.segments:
            size = counted(self.log_bytes, "byte")
            yield f"Log segments: {len(self.segments)}, from offset {self.segments[0]}, {size}"
        if self.election_state is not None:
            state = self.election_state
            leader = "none known" if state.leader_id is None else str(state.leader_id)
            vote = "none" if state.voted_key is None else str(state.voted_key)
            yield f"Quorum state: epoch {state.epoch}, leader {leader}, vote {vote}"
        for recovery in self.recoveries:
            yield f"Recovered: {recovery}"

    def _snapshot_text(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{snapshot_id}, {counted(self.snapshot_bytes.get(snapshot_id, 0), 'byte')}"


def describe_directory(disk: Disk, config: NodeConfig) -> DirectoryInfo:
    """Read the configured directory.  Unreadable parts become problems in the result, never errors."""
    info = DirectoryInfo(config.metadata_log_dir)
    try:
        if not disk.exists(info.directory):
            info.problems.append(f"{info.directory}: there is no such directory")
            return info
        info.meta_properties = read_meta_properties(disk, info.directory, config.node_id)
    except StorageError as error:
        info.problems.append(str(error))
        return info
    except OSError as error:
        info.problems.append(f"{info.directory}: cannot be read: {error.strerror or error}")
        return info
    if info.meta_properties is None:
        info.problems.append(f"{info.directory}: not formatted")
        return info
    if info.meta_properties.node_id != config.node_id:
        found, configured = info.meta_properties.node_id, config.node_id
        info.problems.append(f"{info.directory}: formatted for node {found}, not for node.id={configured}")
    try:
        refuse_lost_directory_id(disk, info.directory, info.meta_properties)
        info.recoveries = tuple(past_recoveries(disk, info.directory))
    except (StorageError, OSError) as error:
        info.problems.append(str(error))
    _describe_partition(disk, partition_path(info.directory, config.topic_name), info)
    if not info.problems and info.election_state is not None:
        info.problems += filter(None, [trio.run(refusal_of_static_voters, disk, config)])
    return info


def _describe_partition(disk: Disk, partition: str, info: DirectoryInfo) -> None:
    if not disk.exists(partition):
        return
    try:
        names = disk.list_directory(partition)
        info.segments = tuple(offsets_of(names, LOG))
        info.log_bytes = sum(_size(disk, join(partition, offset_file_name(offset, LOG))) for offset in info.segments)
        info.snapshots = tuple(checkpoint_ids(names))
        if info.snapshots:
            info.snapshot_bytes = {id: _size(disk, join(partition, checkpoint_name(id))) for id in info.snapshots}
            info.snapshot_voters = _check_newest(disk, partition, info)
    except (StorageError, OSError) as error:
        info.problems.append(str(error))
    try:
        info.election_state = QuorumStateFile(disk, join(partition, QUORUM_STATE)).read()
        if info.election_state is None:
            refuse_missing_quorum_state(disk, partition)
    except (StorageError, OSError) as error:
        info.problems.append(str(error))


def _check_newest(disk: Disk, partition: str, info: DirectoryInfo) -> ControlState:
    newest = info.snapshots[-1]
    batches = open_snapshot(disk, join(partition, checkpoint_name(newest)), newest)
    with progress("checking the newest snapshot", info.snapshot_bytes[newest]) as bar, closing(batches):
        return summarize(newest, _counting(batches, bar)).control_state


def _counting(batches: Iterator[SnapshotBatch], bar: Bar) -> Iterator[SnapshotBatch]:
    for batch in batches:
        bar.advance(len(batch.data))
        yield batch


def _size(disk: Disk, path: str) -> int:
    with closing(disk.open_to_read(path)) as file:
        return file.size()


def _meta_text(properties: MetaProperties) -> str:
    id_key = "node.id" if properties.version == 1 else "broker.id"
    fields = {
        "cluster.id": properties.cluster_id,
        id_key: str(properties.node_id),
        "version": str(properties.version),
    }
    if properties.directory_id != NO_DIRECTORY_ID:
        fields["directory.id"] = directory_id_to_text(properties.directory_id)
    return "{" + ", ".join(f"{name}={value}" for name, value in sorted(fields.items())) + "}"
