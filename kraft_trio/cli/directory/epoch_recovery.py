"""Recovery when the epochs have run out: lowers the epoch in a stopped replica's quorum-state to just above the logs.

It also rewrites a quorum-state that is lost or cannot be read, and whose epoch and vote are therefore unknown.

The log stays unchanged.  This is safe only if every replica of the quorum gets the same epoch, above the last epoch of
every log.  Then no record carries that epoch or a later one, and no running process remembers a leader or vote in one.
"""

from __future__ import annotations

import attrs

from kraft_trio.cli.directory.recovery import Agreed, Recovery, note, preview_log
from kraft_trio.config import NodeConfig
from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.storage.directory.directory import LockedDirectory, partition_path, read_meta_properties
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.log.static_voters import voters_to_store


@attrs.frozen
class EpochRecovery(Recovery):
    """The voters stay as they are."""

    knows_epoch: bool = True
    """Whether quorum-state could be read."""

    def lines(self) -> dict[str, str]:
        """What a person must know before confirming, by label."""
        return {
            "Replica": str(self.key),
            "ClusterId": self.cluster_id,
            "LogEnd": f"offset {self.log_end.offset} (exclusive), epoch {self.log_end.epoch}",
            "Epoch": f"{self.epoch if self.knows_epoch else 'unknown'}, then {self.new_epoch}",
            "Forgotten": "whom this replica has voted for and followed",
            "Condition": f"every replica is stopped, is given {self.new_epoch}, and shows a lower epoch in LogEnd",
        }


async def lower_epoch(
    disk: Disk, config: NodeConfig, new_epoch: int, *, confirmed: Agreed, now_ms: int
) -> EpochRecovery:
    """Plan the recovery, and carry it out if `confirmed` agrees.  Nothing changes before that.

    Raises ConfigError if the epoch is not between the log's and the stored one, StorageError, AlreadyLockedError if a
    process uses the directory, CorruptLogError, StorageFailure.
    """
    directory = config.metadata_log_dir
    partition = partition_path(directory, config.topic_name)
    if disk.exists(directory):
        read_meta_properties(disk, directory, config.node_id)
        if not disk.exists(partition) or not disk.list_directory(partition):
            raise StorageError(f"{partition}: there is no log; a replica that never ran has no epoch to lower")
    with LockedDirectory.open(disk, directory, config.node_id, None) as locked:
        identity = locked.meta_properties
        quorum_state = QuorumStateFile(disk, locked.quorum_state_path(config.topic_name))
        log = preview_log(disk, config, now_ms)
        try:
            end, history = log.end, log.voters
            state = _state_if_readable(quorum_state)
            epoch = max(end.epoch, 0 if state is None else state.epoch)
            _check(new_epoch, end.epoch, None if state is None else epoch)
            voters = voters_to_store(quorum_state.voters, log)
            recovery = EpochRecovery(
                what="lower epoch",
                key=ReplicaKey(config.node_id, identity.directory_id),
                cluster_id=identity.cluster_id,
                log_end=end,
                may_be_uncommitted_from=end.offset,
                epoch=epoch,
                new_epoch=new_epoch,
                before=history.voters,
                after=history.voters,
                knows_epoch=state is not None,
            )
        finally:
            await log.close()
        if confirmed(recovery):
            note(disk, directory, recovery, "begun", now_ms)
            await quorum_state.write(ElectionState(new_epoch), history.kraft_version, voters)
            note(disk, directory, recovery, "done", now_ms)
    return recovery


def _state_if_readable(quorum_state: QuorumStateFile) -> ElectionState | None:
    try:
        return quorum_state.read()
    except StorageError:
        return None


def _check(new_epoch: int, log_epoch: int, epoch: int | None) -> None:
    if new_epoch <= log_epoch:
        raise ConfigError(
            f"--unsafe-epoch {new_epoch}: the log ends in epoch {log_epoch}; "
            "expected an epoch above that of every replica's LogEnd"
        )
    if epoch is not None and new_epoch >= epoch:
        raise ConfigError(f"--unsafe-epoch {new_epoch}: the replica is in epoch {epoch}, so there is nothing to lower")
