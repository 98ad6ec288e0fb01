"""Accepts changed static voters on a stopped replica, although they may forget what those of before committed.

The log stays unchanged, and quorum-state names the configured voters from then on.  Its epoch rises by one, so that no
LeaderChange in the log is newer than they are.
"""

from __future__ import annotations

import attrs

from kraft_trio.cli.directory.recovery import Agreed, Recovery, note, preview_log
from kraft_trio.config import NodeConfig
from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.protocol.epoch_limits import MAX_EPOCH
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.directory.directory import LockedDirectory, partition_path
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import QUORUM_STATE
from kraft_trio.storage.log.static_voters import ACCEPT, check_static_voters, voters_of_before


@attrs.frozen
class StaticVotersRecovery(Recovery):
    """The voters become those of `controller.quorum.voters`."""

    def lines(self) -> dict[str, str]:
        """What a person must know before confirming, by label."""
        lost = "no record"
        if self.log_end.offset:
            lost = f"offsets 0 to {self.log_end.offset - 1}: a leader without them makes this replica drop them"
        return {
            "Replica": str(self.key),
            "ClusterId": self.cluster_id,
            "LogEnd": f"offset {self.log_end.offset} (exclusive), epoch {self.log_end.epoch}",
            "Epoch": f"{self.epoch}, then {self.new_epoch}",
            "VotersBefore": _ids_text(self.before),
            "VotersAfter": _ids_text(self.after),
            "MayBeLost": lost,
        }


async def accept_static_voters(disk: Disk, config: NodeConfig, *, confirmed: Agreed, now_ms: int) -> Recovery:
    """Plan the change, and carry it out if `confirmed` agrees.  Nothing changes before that.

    Raises ConfigError without static voters, StorageError if there is nothing to accept, AlreadyLockedError if a
    process uses the directory, CorruptLogError, StorageFailure.
    """
    after = config.static_voter_set()
    if not len(after):
        raise ConfigError(f"{ACCEPT}: controller.quorum.voters is empty, expected the voters to accept")
    with LockedDirectory.open(disk, config.metadata_log_dir, config.node_id, None) as locked:
        path = locked.quorum_state_path(config.topic_name)
        quorum_state = QuorumStateFile(disk, path)
        state = quorum_state.read()
        if state is None:
            raise StorageError(f"{path}: missing; a replica that never ran has no voters of before")
        log = preview_log(disk, config, now_ms)
        try:
            if log.voters.voters_offset is not None:
                raise StorageError(f"{config.metadata_log_dir}: the log names the voters, so {ACCEPT} changes nothing")
            before = VoterSet(Voter(ReplicaKey(id)) for id in voters_of_before(quorum_state.voters, log))
            if before.ids == after.ids:
                raise StorageError(f"{path}: the voters are {_ids_text(after)} already")
            epoch = max(log.end.epoch, state.epoch)
            if epoch >= MAX_EPOCH:
                raise StorageError(f"{path}: epoch {epoch} leaves no higher one; lower it with --unsafe-epoch first")
            recovery = StaticVotersRecovery(
                what="static voters",
                key=ReplicaKey(config.node_id, locked.meta_properties.directory_id),
                cluster_id=locked.meta_properties.cluster_id,
                log_end=log.end,
                may_be_uncommitted_from=log.end.offset,
                epoch=epoch,
                new_epoch=epoch + 1,
                before=before,
                after=after,
            )
        finally:
            await log.close()
        if confirmed(recovery):
            note(disk, config.metadata_log_dir, recovery, "begun", now_ms)
            await quorum_state.write(ElectionState(recovery.new_epoch), 0, after)
            note(disk, config.metadata_log_dir, recovery, "done", now_ms)
    return recovery


async def refusal_of_static_voters(disk: Disk, config: NodeConfig) -> str | None:
    """Why the node would refuse to start with the static voters of its configuration; None if it would not.

    Changes nothing.  Raises StorageError, CorruptLogError, StorageFailure if the directory cannot be read.
    """
    partition = partition_path(config.metadata_log_dir, config.topic_name)
    path = join(partition, QUORUM_STATE)
    quorum_state = QuorumStateFile(disk, path)
    configured = config.static_voter_set().ids
    if quorum_state.read() is None or not configured or quorum_state.voters.ids == configured:
        return None  # The log has no say in it, and may be large.
    log = preview_log(disk, config, 0)
    try:
        check_static_voters(path, quorum_state.voters, log)
    except StorageError as error:
        return str(error)
    finally:
        await log.close()
    return None


def _ids_text(voters: VoterSet) -> str:
    return ", ".join(map(str, voters.ids)) or "unknown"
