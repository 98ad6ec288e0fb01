"""Which static voters a replica last knew to be in force, and whether those of its configuration may follow.

quorum-state keeps the voters of before until a leader that the configured ones elected has committed something. Then a
running node stores the configured ones (`actors.election.edited_voters`). For one that does not run, the log tells.
Until then, a further change is compared with the voters of before. {1} to {1, 2} to {1, 2, 3} is no safer than {1} to
{1, 2, 3} if 2 has nothing yet.
"""

from __future__ import annotations

from typing import Final

from kraft_trio.errors import StorageError
from kraft_trio.protocol.static_voters import disjoint_majorities
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batches.batch import decode_control_batch, peek_header
from kraft_trio.storage.batches.control_records import LeaderChange
from kraft_trio.storage.directory.quorum_state import StoredVoters
from kraft_trio.storage.log.log import Log

ACCEPT: Final = "--unsafe-static-voters"
"""The flag of `kraft storage recover` that stores the configured voters in place of those of before."""


def voters_of_before(stored: StoredVoters, log: Log) -> tuple[int, ...]:
    """The ids of the voters that had the last word on what is committed; empty if unknown.

    They are those of quorum-state, unless it names none, as of an observer that only has bootstrap servers, or a later
    leader has committed its LeaderChange, which names its own.
    """
    elected = _committed_leader_change(log)
    is_newer = elected is not None and (elected.epoch >= stored.epoch or not stored.ids)
    return elected.ids if elected is not None and is_newer else stored.ids


def voters_to_store(stored: StoredVoters, log: Log) -> VoterSet:
    """The static voters for quorum-state: the configured ones, unless those of before still have the last word."""
    configured = log.voters.static_voters
    if not stored.ids or stored.ids == configured.ids or not log.end_offset:
        return configured
    return VoterSet(Voter(ReplicaKey(id)) for id in voters_of_before(stored, log))


def check_static_voters(path: str, stored: StoredVoters, log: Log) -> None:
    """Raise StorageError if the configured static voters may forget what those of before have committed.

    `path` is that of quorum-state.  An empty log has nothing to lose: its node counts as one with a blank disk.
    """
    configured = log.voters.static_voters.ids
    if log.voters.voters_offset is not None or not log.end_offset or stored.ids == configured:
        return
    before = voters_of_before(stored, log)
    disjoint = disjoint_majorities(before, configured)
    if disjoint is None:
        return
    raise StorageError(
        f"{path}: the voters were {_told(before)}, but controller.quorum.voters names {_told(configured)}: "
        f"{_told(disjoint.after)} could elect a leader without what {_told(disjoint.before)} committed, and this node "
        f"would drop it; {_stop_first(before, configured)}name {_told(before)} again, run `kraft features upgrade`, "
        f"and then add or remove voters with `kraft metadata-quorum` (`kraft storage recover {ACCEPT}` "
        "accepts the loss)"
    )


def _committed_leader_change(log: Log) -> StoredVoters | None:
    """The newest LeaderChange that is known to be committed, as far as the log still has it."""
    committed = log.once_committed
    for epoch, start_offset in reversed(log.epochs.entries):
        if start_offset >= committed:
            continue
        batch = log.read(start_offset, 1)
        header = peek_header(batch)
        if header.is_control:
            for _, record in decode_control_batch(batch, 0, header):
                if isinstance(record, LeaderChange):
                    return StoredVoters(epoch, tuple(sorted(record.voter_ids)))
        return None  # The log has been trimmed.
    return None


def _stop_first(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """Blank new voters that run have perhaps elected a leader: named again, the old ones would make a second one."""
    joined = tuple(sorted(set(after) - set(before)))
    if not joined:
        return ""
    many = len(joined) > 1
    return (
        f"if {_told(joined)} began with {'blank disks' if many else 'a blank disk'}, stop {'them' if many else 'it'}; "
    )


def _told(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids))
