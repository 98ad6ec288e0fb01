"""The control records with which a leader begins its epoch."""

from __future__ import annotations

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_history import VoterHistory
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batches.control_records import ControlRecord, KRaftVersion, LeaderChange, VotersRecord


def first_records(
    leader: Voter, granting_voters: frozenset[ReplicaKey], history: VoterHistory, high_watermark: int | None
) -> list[ControlRecord]:
    """The records of the epoch's first batch (KIP-853 "First leader").

    It also has kraft.version and the voters if only the bootstrap checkpoint has them.  It has the voters if the
    leader's entry is out of date, unless the newest set may be uncommitted, because only one set may be.
    """
    voters = VoterSet(leader if voter.key == leader.key else voter for voter in history.voters)
    records: list[ControlRecord] = [
        LeaderChange(
            leader_id=leader.key.id,
            voter_ids=history.voters.ids,
            granting_voter_ids=tuple(sorted(key.id for key in granting_voters)),
        )
    ]
    if history.came_from_bootstrap:
        records += [KRaftVersion(history.kraft_version), VotersRecord(voters, history.target)]
    elif history.kraft_version > 0 and voters != history.voters and not history.uncommitted(high_watermark):
        records.append(VotersRecord(voters, history.target))
    return records
