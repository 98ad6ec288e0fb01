"""What must always hold of a quorum, one class a rule; docs/SIMULATION.md lists them with what each has found."""

from __future__ import annotations

from typing import Final

from kraft_trio.simulation.invariants.acknowledged_writes import AcknowledgedWrites
from kraft_trio.simulation.invariants.commit_by_majority import CommitByMajority
from kraft_trio.simulation.invariants.dead_incarnations import DeadIncarnations
from kraft_trio.simulation.invariants.epochs_never_fall import EpochsNeverFall
from kraft_trio.simulation.invariants.equal_states import EqualStates
from kraft_trio.simulation.invariants.high_watermark_never_falls import HighWatermarkNeverFalls
from kraft_trio.simulation.invariants.high_watermark_of_the_epoch import HighWatermarkOfTheEpoch
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.simulation.invariants.leader_appends_in_its_epoch import LeaderAppendsInItsEpoch
from kraft_trio.simulation.invariants.leader_completeness import LeaderCompleteness
from kraft_trio.simulation.invariants.log_matching import LogMatching
from kraft_trio.simulation.invariants.members_campaign import MembersCampaign
from kraft_trio.simulation.invariants.no_early_voter_change import NoEarlyVoterChange
from kraft_trio.simulation.invariants.nothing_from_strangers import NothingFromStrangers
from kraft_trio.simulation.invariants.one_leader_per_epoch import OneLeaderPerEpoch
from kraft_trio.simulation.invariants.one_uncommitted_voter_change import OneUncommittedVoterChange
from kraft_trio.simulation.invariants.one_vote_per_epoch import OneVotePerEpoch
from kraft_trio.simulation.invariants.overlapping_voter_sets import OverlappingVoterSets
from kraft_trio.simulation.invariants.progress_is_durable import ProgressIsDurable
from kraft_trio.simulation.invariants.restarted_leader_resigns import RestartedLeaderResigns
from kraft_trio.simulation.invariants.role_transitions import RoleTransitions
from kraft_trio.simulation.invariants.snapshots_cover_the_log import SnapshotsCoverTheLog
from kraft_trio.simulation.invariants.state_machine_safety import StateMachineSafety
from kraft_trio.simulation.invariants.voters_in_force import VotersInForce

__all__ = ["INVARIANTS", "Invariant"]

INVARIANTS: Final[tuple[type[Invariant], ...]] = (
    OneLeaderPerEpoch,
    EpochsNeverFall,
    OneVotePerEpoch,
    RestartedLeaderResigns,
    LogMatching,
    LeaderAppendsInItsEpoch,
    LeaderCompleteness,
    StateMachineSafety,
    HighWatermarkNeverFalls,
    HighWatermarkOfTheEpoch,
    CommitByMajority,
    OneUncommittedVoterChange,
    OverlappingVoterSets,
    NoEarlyVoterChange,
    VotersInForce,
    MembersCampaign,
    RoleTransitions,
    SnapshotsCoverTheLog,
    EqualStates,
    ProgressIsDurable,
    AcknowledgedWrites,
    DeadIncarnations,
    NothingFromStrangers,
)
"""All of them, by number from 1 on."""
