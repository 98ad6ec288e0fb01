"""The rules that a quorum must never break, one class each; docs/reference/simulator.md lists them."""

from __future__ import annotations

from typing import Final

from kraft_trio.simulation.invariants.clients import AcknowledgedWrites, NothingFromStrangers
from kraft_trio.simulation.invariants.commits import (
    CommitByMajority,
    HighWatermarkNeverFalls,
    HighWatermarkOfTheEpoch,
    ProgressIsDurable,
)
from kraft_trio.simulation.invariants.elections import (
    DeadIncarnations,
    MembersCampaign,
    OneLeaderPerEpoch,
    OneVotePerEpoch,
)
from kraft_trio.simulation.invariants.epochs import EpochsNeverFall, RestartedLeaderResigns, RoleTransitions
from kraft_trio.simulation.invariants.invariant import Invariant
from kraft_trio.simulation.invariants.log import LeaderAppendsInItsEpoch, LeaderCompleteness, LogMatching
from kraft_trio.simulation.invariants.old_copies import OldCopiesAreTold
from kraft_trio.simulation.invariants.reads import LinearizableReads
from kraft_trio.simulation.invariants.reassignment import ReassignmentKeepsTolerance
from kraft_trio.simulation.invariants.snapshots import EqualStates, SnapshotsCoverTheLog
from kraft_trio.simulation.invariants.state_machine_safety import StateMachineSafety
from kraft_trio.simulation.invariants.voter_changes import (
    NoEarlyVoterChange,
    OneUncommittedVoterChange,
    OverlappingVoterSets,
    VotersInForce,
)
from kraft_trio.simulation.invariants.witnesses import WitnessesHandOver, WitnessesLeadLast

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
    ReassignmentKeepsTolerance,
    LinearizableReads,
    WitnessesLeadLast,
    WitnessesHandOver,
    OldCopiesAreTold,
)
"""All of them, by number from 1 on."""
