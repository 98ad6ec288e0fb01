"""The nursery tree below the epoch nursery, by role (docs/explanation/architecture.md#the-nursery-tree)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.election.end_epoch_sender import EndEpochSender
from kraft_trio.actors.election.leader_discovery import LeaderDiscovery
from kraft_trio.actors.election.leadership import Leadership
from kraft_trio.actors.election.vote_round import VoteRound
from kraft_trio.actors.kafka.controller_registrar import ControllerRegistrar, Registration
from kraft_trio.actors.kafka.snapshot_copier import SnapshotCopier
from kraft_trio.actors.kafka.witness_handover import WitnessHandover
from kraft_trio.actors.membership.auto_join import AutoJoin
from kraft_trio.actors.membership.update_voter_sender import UpdateVoterSender
from kraft_trio.actors.membership.voter_change_coordinator import VoterChangeCoordinator
from kraft_trio.actors.replication.epoch_announcer import EpochAnnouncer
from kraft_trio.actors.replication.follower_replication import FollowerReplication
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.actors.waiting.served_mailbox import ServedMailbox
from kraft_trio.channels import Mailbox
from kraft_trio.errors import DamagedLogError, DiskFullError
from kraft_trio.messages import LeaderMessage, VoterChangeMessage
from kraft_trio.protocol.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from kraft_trio.protocol.types import ReplicaKey, VersionRange
from kraft_trio.storage.log.log import Log

LEADER_MAILBOX_SIZE = 1024
VOTER_CHANGES_MAILBOX_SIZE = 16


@attrs.frozen
class EpochTasks:
    """The tasks of one stay in a role that others use."""

    replication: LeaderReplication | FollowerReplication | None = None
    leader_mailbox: Mailbox[LeaderMessage] | None = None
    voter_changes: trio.MemorySendChannel[VoterChangeMessage] | None = None
    leadership: Leadership | None = None
    vote_round: VoteRound | None = None


def start_epoch_tasks(
    nursery: trio.Nursery,
    context: EpochContext,
    role: Role,
    observer_versions: Mapping[ReplicaKey, VersionRange],
    registration: Registration | None = None,
    ask_at_s: float = -math.inf,
) -> EpochTasks:
    """Start the tasks of a role.  They end with the nursery.

    `registration` is that of a witness.  `ask_at_s` is when a Prospective asks for pre-votes, on Trio's clock.
    """
    match role:
        case Unattached():
            nursery.start_soon(LeaderDiscovery(context).run)
        case Prospective() | Candidate():
            vote_round = VoteRound(context, role, log_end=context.log.end, voters=context.log.voters.voters)
            if isinstance(role, Prospective):
                vote_round.ask_at(ask_at_s)
            nursery.start_soon(vote_round.run)
            return EpochTasks(vote_round=vote_round)
        case Follower():
            follower = FollowerReplication(context, role)
            nursery.start_soon(follower.run)
            nursery.start_soon(UpdateVoterSender(context, role).run)
            if context.config.auto_join:
                nursery.start_soon(AutoJoin(context, role).run)
            if registration is not None:
                nursery.start_soon(ControllerRegistrar(context, role, registration).run)
                nursery.start_soon(SnapshotCopier(context, role).run)
            return EpochTasks(follower)
        case Leader():
            leader_mailbox = ServedMailbox[LeaderMessage](LEADER_MAILBOX_SIZE)
            voter_changes, changes = trio.open_memory_channel[VoterChangeMessage](VOTER_CHANGES_MAILBOX_SIZE)
            leader = LeaderReplication(context, leader_mailbox, granting_voters=role.granting_voters)
            coordinator = VoterChangeCoordinator(context, leader, changes, observer_versions)
            nursery.start_soon(_until_full, leader.run, context.log)
            nursery.start_soon(EpochAnnouncer(context, leader.progress).run)
            nursery.start_soon(_until_full, coordinator.run, context.log)
            if context.config.witness:
                nursery.start_soon(WitnessHandover(context, leader).run)
            return EpochTasks(leader, leader_mailbox, voter_changes, Leadership(role.epoch, role.epoch_start_offset))
        case Resigned():
            nursery.start_soon(EndEpochSender(context, role).run)
    return EpochTasks()


async def _until_full(run: Callable[[], Awaitable[None]], log: Log) -> None:
    """Run until the disk is full or the log is damaged; then return, so that the node can hand over before it ends."""
    try:
        await run()
    except* (DiskFullError, DamagedLogError):
        if log.poisoned is not None:
            raise
