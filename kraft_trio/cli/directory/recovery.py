"""Last-resort recovery: rewrites the voter set of a stopped replica without its quorum's consent.

It appends a VotersRecord to the replica's own log, in an epoch that nobody can have led, as if the replica had been
elected in it.  From then on its log counts as the newest, no matter what the others have committed.  That makes it
unsafe; no quorum that can still elect a leader needs it.

A crash at any point leaves a replica that can start, with the old or the new voter set: the new epoch goes to
quorum-state first, then the record to the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs
from structlog.testing import capture_logs

from kraft_trio.cli.directory.preview_disk import PreviewDisk
from kraft_trio.cli.terminal.json_option import id_fields, key_fields
from kraft_trio.config import NodeConfig
from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.protocol.epoch_limits import MAX_EPOCH
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_changes import check_new_voter
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batches.batch import encode_control_batch
from kraft_trio.storage.batches.control_records import LeaderChange, VotersRecord
from kraft_trio.storage.checks.quarantine import refuse_damaged
from kraft_trio.storage.directory.directory import (
    LockedDirectory,
    partition_path,
    read_meta_properties,
    refuse_lost_directory_id,
)
from kraft_trio.storage.directory.meta_properties import MetaProperties
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import checkpoint_ids
from kraft_trio.storage.log.log import Log
from kraft_trio.storage.log.log_appender import LogConfig
from kraft_trio.storage.log.static_voters import ACCEPT

RECORD: Final = "recovery-record.ndjson"
"""In the node's directory.  Each recovery adds one line before it starts and one when it is done."""

EPOCH_STEP: Final = 1000
"""No quorum is this many elections ahead of a replica worth recovering."""


@attrs.frozen
class Recovery:
    """What will be done to one replica.  Offsets are exclusive ends, except for `may_be_uncommitted_from`."""

    what: str
    key: ReplicaKey
    cluster_id: str
    log_end: OffsetAndEpoch
    may_be_uncommitted_from: int
    """Records from this offset to the log's end may never have been committed; no file tells."""
    epoch: int
    """The epoch in quorum-state, or the log's if that is higher."""
    new_epoch: int
    before: VoterSet
    after: VoterSet

    def lines(self) -> dict[str, str]:
        """What a person must know before confirming, by label."""
        end = self.log_end.offset
        kept = "no record"
        if self.may_be_uncommitted_from < end:
            kept = (
                f"offsets {self.may_be_uncommitted_from} to {end - 1}: records that never committed will count as "
                "committed"
            )
        return {
            "Replica": str(self.key),
            "ClusterId": self.cluster_id,
            "LogEnd": f"offset {end} (exclusive), epoch {self.log_end.epoch}",
            "Epoch": f"{self.epoch}, then {self.new_epoch}",
            "VotersBefore": _told(self.before),
            "VotersAfter": _told(self.after),
            "MayBeLost": f"offsets {end} and above: anything the other voters committed there",
            "MayBeMadeCommitted": kept,
        }

    def fields(self, *, is_done: bool) -> dict[str, Any]:
        """The same for programs."""
        return {
            "recovery": self.what,
            "isDone": is_done,
            "replica": key_fields(self.key),
            "clusterId": self.cluster_id,
            "logEnd": id_fields(self.log_end),
            "mayBeUncommittedFrom": self.may_be_uncommitted_from,
            "epoch": self.epoch,
            "newEpoch": self.new_epoch,
            "votersBefore": [key_fields(voter.key) for voter in self.before],
            "votersAfter": [key_fields(voter.key) for voter in self.after],
        }


Agreed = Callable[[Recovery], bool]
"""Whether a person agrees to the plan."""

Change = Callable[[NodeConfig, ReplicaKey, VoterSet], tuple[str, VoterSet]]
"""Makes the new voter set from the current one, with a description.  Raises ConfigError, StorageError."""


def only_voter(config: NodeConfig, key: ReplicaKey, voters: VoterSet) -> tuple[str, VoterSet]:
    """Make the replica the only voter, at the listeners in its configuration."""
    after = VoterSet([config.as_voter(key.directory_id)])
    if voters == after:
        raise StorageError(f"{config.metadata_log_dir}: {key} is the only voter already: start it")
    return "only voter", after


def other_endpoints(endpoints: Mapping[int, Endpoints]) -> Change:
    """Keep the voters and change the endpoints of some (KIP-1347)."""

    def change(config: NodeConfig, key: ReplicaKey, voters: VoterSet) -> tuple[str, VoterSet]:
        unknown = sorted(set(endpoints) - set(voters.ids))
        if unknown:
            raise ConfigError(
                f"--unsafe-endpoints: no voter has id {unknown[0]}: the voters are {', '.join(map(str, voters.ids))}"
            )
        if not voters.is_voter(key):
            raise StorageError(f"{config.metadata_log_dir}: {key} is not a voter: nobody would elect it")
        after = VoterSet(attrs.evolve(v, endpoints=endpoints.get(v.id, v.endpoints)) for v in voters)
        for voter in after:
            refused = check_new_voter(voter, config.controller_listener_name)
            if refused is not None:
                raise ConfigError(f"--unsafe-endpoints: voter {voter.id}: {refused.reason}")
        if after == voters:
            raise StorageError(f"{config.metadata_log_dir}: the voters have these endpoints already")
        return "other endpoints", after

    return change


async def recover(
    disk: Disk, config: NodeConfig, change: Change, *, confirmed: Callable[[Recovery], bool], now_ms: int
) -> Recovery:
    """Plan the recovery, and carry it out if `confirmed` agrees.  Blocks for fsyncs.

    Nothing changes before that, not even a torn tail.  The directory stays locked throughout, so the confirmed plan is
    the one carried out.  Raises ConfigError, StorageError, AlreadyLockedError if a process uses the directory,
    CorruptLogError, StorageFailure.
    """
    _check_config(config)
    directory = config.metadata_log_dir
    partition = partition_path(directory, config.topic_name)
    properties = read_meta_properties(disk, directory, config.node_id) if disk.exists(directory) else None
    if properties is not None:
        # It was formatted and never started, so it has no log.
        if not disk.exists(partition) or not disk.list_directory(partition):
            raise StorageError(f"{partition}: there is no log to recover from")
        refuse_lost_directory_id(disk, directory, properties)
        if properties.directory_id == NO_DIRECTORY_ID:
            raise StorageError(f"{directory}: no directory id, so it cannot be a voter of kraft.version 1")
    with LockedDirectory.open(disk, directory, config.node_id, None) as locked:
        identity = locked.meta_properties
        quorum_state = QuorumStateFile(disk, locked.quorum_state_path(config.topic_name))
        log = preview_log(disk, config, now_ms)
        try:
            recovery = _plan(disk, config, identity, log, quorum_state.read(), change)
        finally:
            await log.close()
        if confirmed(recovery):
            log = open_log(disk, config, now_ms)
            try:
                assert log.end == recovery.log_end, "nobody else has had the directory meanwhile"
                note(disk, directory, recovery, "begun", now_ms)
                state = ElectionState(recovery.new_epoch, recovery.key.id)
                await quorum_state.write(state, log.voters.kraft_version, log.voters.static_voters)
                log.append_as_leader(_batch(recovery, now_ms), recovery.new_epoch)
                await log.sync()
                note(disk, directory, recovery, "done", now_ms)
            finally:
                await log.close()
    return recovery


def past_recoveries(disk: Disk, directory: str) -> Iterator[str]:
    """The recoveries of a directory, oldest first, in words.  Raises StorageError for a malformed record, OSError."""
    path = join(directory, RECORD)
    if not disk.exists(path):
        return
    lines = disk.read_bytes(path).splitlines()
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            told = (
                f"{fields['time']}: {fields['recovery']}, at offset {fields['logEndOffset']} of epoch "
                f"{fields['logEndEpoch']}, from then on epoch {fields['newEpoch']}"
            )
            step = fields["step"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StorageError(f"{path}: line {number} does not describe a recovery: {error!r}") from None
        if step == "done":
            yield told
        elif number == len(lines):
            yield f"{told}; begun, but not noted as done"


def preview_log(disk: Disk, config: NodeConfig, now_ms: int) -> Log:
    """Open the log as `open_log` does, but leave the disk unchanged.

    Raises CorruptLogError also for damage that a read has found, because the node would not start with it.
    """
    refuse_damaged(disk, partition_path(config.metadata_log_dir, config.topic_name), forgets_mended=False)
    with capture_logs():  # opening logs repairs, which the preview does not carry out
        return open_log(PreviewDisk(disk), config, now_ms)


def open_log(disk: Disk, config: NodeConfig, now_ms: int) -> Log:
    """Open the replica's log.  This cuts a torn tail."""
    return Log.open(
        disk,
        partition_path(config.metadata_log_dir, config.topic_name),
        topic_id=config.topic_id,
        static_voters=config.static_voter_set(),
        config=LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
            preallocate_bytes=config.preallocate_bytes,
            max_producers=config.max_producer_ids,
        ),
        now_ms=lambda: now_ms,
    )


def _check_config(config: NodeConfig) -> None:
    if "controller" not in config.process_roles:
        raise ConfigError(f"process.roles={','.join(config.process_roles)}: expected controller for a voter")


def _plan(
    disk: Disk,
    config: NodeConfig,
    identity: MetaProperties,
    log: Log,
    state: ElectionState | None,
    change: Change,
) -> Recovery:
    if log.voters.kraft_version == 0:
        raise StorageError(
            f"{config.metadata_log_dir}: kraft.version is 0: change the voters in controller.quorum.voters instead, "
            f"and accept them with {ACCEPT}"
        )
    key = ReplicaKey(config.node_id, identity.directory_id)
    before = log.voters.voters
    what, after = change(config, key, before)
    epoch = max(log.end.epoch, 0 if state is None else state.epoch)
    if epoch > MAX_EPOCH - 4 * EPOCH_STEP:
        raise StorageError(
            f"{config.metadata_log_dir}: epoch {epoch} leaves no epoch to recover in; lower it with "
            "--unsafe-epoch first"
        )
    snapshots = checkpoint_ids(disk.list_directory(partition_path(config.metadata_log_dir, config.topic_name)))
    return Recovery(
        what=what,
        key=key,
        cluster_id=identity.cluster_id,
        log_end=log.end,
        may_be_uncommitted_from=max((snapshot.offset for snapshot in snapshots), default=log.log_start_offset),
        epoch=epoch,
        new_epoch=_unused_epoch(epoch, before, key),
        before=before,
        after=after,
    )


def _unused_epoch(epoch: int, voters: VoterSet, key: ReplicaKey) -> int:
    """An epoch ahead of any that the others can have reached, and different for each voter."""
    place = voters.ids.index(key.id) if key.id in voters.ids else len(voters)
    return (epoch // EPOCH_STEP + 2) * EPOCH_STEP + place % EPOCH_STEP


def _batch(recovery: Recovery, now_ms: int) -> bytes:
    """The first batch of the new epoch: the leader change and the voters."""
    leader_change = LeaderChange(recovery.key.id, recovery.after.ids, (recovery.key.id,))
    return encode_control_batch([leader_change, VotersRecord(recovery.after)], timestamp_ms=now_ms)


def note(disk: Disk, directory: str, recovery: Recovery, step: str, now_ms: int) -> None:
    """Add a line to the record, durably."""
    path = join(directory, RECORD)
    earlier = disk.read_bytes(path) if disk.exists(path) else b""
    line = {
        "time": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "step": step,
        "recovery": recovery.what,
        "replica": str(recovery.key),
        "clusterId": recovery.cluster_id,
        "logEndOffset": recovery.log_end.offset,
        "logEndEpoch": recovery.log_end.epoch,
        "epoch": recovery.epoch,
        "newEpoch": recovery.new_epoch,
        "votersBefore": _fields(recovery.before),
        "votersAfter": _fields(recovery.after),
    }
    disk.replace_now(path, earlier + json.dumps(line).encode() + b"\n")


def _fields(voters: VoterSet) -> list[dict[str, object]]:
    return [
        {"voter": str(voter.key), "endpoints": [f"{name}://{endpoint}" for name, endpoint in voter.endpoints]}
        for voter in voters
    ]


def _told(voters: VoterSet) -> str:
    return ", ".join(map(_voter_text, voters))


def _voter_text(voter: Voter) -> str:
    return f"{voter.key} at {' '.join(f'{name}://{endpoint}' for name, endpoint in voter.endpoints) or 'no endpoint'}"
