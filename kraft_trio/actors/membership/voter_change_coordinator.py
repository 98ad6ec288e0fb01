"""Changes the set of voters, one change at a time (KIP-853).

Each request runs as a task under its own deadline.  To append its record, the task takes a turn, and keeps it until
the record is committed or the epoch ends.  While it waits for a new voter to answer and to catch up, other changes may
have their turn.  Each change has a cancel scope, which ends with the commit or with the epoch nursery, and so before
any truncation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.membership.leadership_transfer import LeadershipTransfer
from kraft_trio.actors.membership.reassignment import Reassignment
from kraft_trio.actors.membership.voter_change import (
    ChangeRefusedError,
    VoterChange,
    VoterChangeSteps,
    answering,
    require,
)
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.channels import drain
from kraft_trio.limits.voter_change_rate import VoterChangeRate
from kraft_trio.messages import (
    AddVoterReceived,
    LeadershipLost,
    ReassignmentAnswer,
    ReassignVotersReceived,
    RemoveVoterReceived,
    TransferLeadershipReceived,
    UpdateFeaturesReceived,
    UpdateVoterReceived,
    VoterChangeMessage,
)
from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.types import ReplicaKey, VersionRange
from kraft_trio.protocol.voter_changes import (
    Refused,
    add_voter,
    check_kraft_version,
    check_new_voter,
    remove_voter,
    update_voter,
    upgrade_voters,
)
from kraft_trio.protocol.voter_set import KRAFT_VERSION, SUPPORTED_KRAFT_VERSIONS, Voter
from kraft_trio.storage.batches.control_records import KRaftVersion, VotersRecord
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterResponse
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterResponse
from kraft_trio.wire.apis.transfer_leadership import TransferLeadershipResponse
from kraft_trio.wire.apis.update_features import (
    FeatureResult,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterResponse
from kraft_trio.wire.error_codes import ErrorCode

MAX_QUOTED_FEATURES: Final = 3
MAX_QUOTED_CHARACTERS: Final = 100
"""Limits for quoting a request in a refusal: the number of unknown features, and the characters of a name."""

MakeChange = Callable[[VoterChange], Awaitable[None]]


class VoterChangeCoordinator:
    """The voter changes of one epoch that this node leads; built for the epoch and never reused.

    It answers each request exactly once: when the change is committed, refused or out of time, or with
    NOT_LEADER_OR_FOLLOWER when the epoch ends first.
    """

    def __init__(
        self,
        context: EpochContext,
        leader: LeaderReplication,
        mailbox: trio.MemoryReceiveChannel[VoterChangeMessage],
        observer_versions: Mapping[ReplicaKey, VersionRange],
    ) -> None:
        """`observer_versions`: the kraft.versions that observers support, as the application has reported them.

        They take precedence over what the observers themselves tell when they fetch.
        """
        self._context = context
        self._key = context.key
        self._log = context.log
        self._mailbox = mailbox
        self._progress = leader.progress
        self._observer_versions = observer_versions
        self._steps = VoterChangeSteps(context, leader)
        self._reassignment = Reassignment(context, leader, self._steps)
        self._transfer = LeadershipTransfer(context, leader, self._steps)
        config = context.config
        self._rate = VoterChangeRate(config.voter_changes_per_minute, config.voter_changes_burst, trio.current_time())
        self._under_way: list[VoterChange] = []
        self._own = context.config.as_voter(context.key.directory_id)
        self._reported: dict[int, Voter] = {}
        """What other static voters have reported of themselves in this epoch (kraft.version 0)."""

    async def run(self) -> None:
        """Serve until the epoch ends, then answer all requests that still wait."""
        try:
            async with trio.open_nursery() as nursery:
                self._begin(nursery, VoterChange.unasked("update own entry"), self._update_own_entry)
                nursery.start_soon(self._reassignment.run)
                async for message in self._mailbox:
                    change, make = self._change_of(message)
                    if self._comes_too_fast(message):
                        self._throttle(message, change)
                    else:
                        self._begin(nursery, change, make)
        finally:
            self._abandon_waiting()

    def _begin(self, nursery: trio.Nursery, change: VoterChange, make: MakeChange) -> None:
        if len(self._under_way) >= (limit := self._context.config.max_waiting_voter_changes):
            self._context.refusals.voter_changes += 1
            change.answer(ErrorCode.request_timed_out, f"{limit} voter changes are waiting already")
            return
        self._under_way.append(change)
        nursery.start_soon(self._make, change, make)

    def _comes_too_fast(self, message: VoterChangeMessage) -> bool:
        """Whether `kraft.voter.changes.per.minute` refuses it.  A voter may always say again what the set has of it."""
        voters = self._steps.voters
        match message:
            case AddVoterReceived(request=add):
                key = ReplicaKey(add.voter_id, add.voter_directory_id)
                is_about_known = self._progress.get(key) is not None
            case RemoveVoterReceived(request=remove):
                is_about_known = voters.is_voter(ReplicaKey(remove.voter_id, remove.voter_directory_id))
            case UpdateVoterReceived(request=update):
                key = ReplicaKey(update.voter_id, update.voter_directory_id)
                known = voters.get(update.voter_id)
                if known == Voter(key, update.listeners, update.kraft_versions):
                    return False
                is_about_known = voters.is_voter(key)
            case _:
                is_about_known = False
        return not self._rate.take(trio.current_time(), is_about_known=is_about_known)

    def _throttle(self, message: VoterChangeMessage, change: VoterChange) -> None:
        """Refuse a change for now.  Kafka's admin clients repeat it; its replicas know only the other error."""
        self._context.refusals.throttled_voter_changes += 1
        of_replica = isinstance(message, UpdateVoterReceived)
        error = ErrorCode.request_timed_out if of_replica else ErrorCode.throttling_quota_exceeded
        change.answer(error, "voter changes come too fast: try again later (kraft.voter.changes.per.minute)")

    def _change_of(self, message: VoterChangeMessage) -> tuple[VoterChange, MakeChange]:
        """The change that a message requests, and the function that makes it."""
        match message:
            case AddVoterReceived(request=add, deadline=deadline, reply=reply):
                voter = Voter(ReplicaKey(add.voter_id, add.voter_directory_id), add.listeners)
                change = VoterChange(f"add {voter.key}", deadline, answering(reply, AddRaftVoterResponse))
                return change, lambda change: self._add(change, voter, add.ack_when_committed)
            case RemoveVoterReceived(request=remove, deadline=deadline, reply=removed):
                key = ReplicaKey(remove.voter_id, remove.voter_directory_id)
                change = VoterChange(f"remove {key}", deadline, answering(removed, RemoveRaftVoterResponse))
                return change, lambda change: self._remove(change, key)
            case UpdateVoterReceived(request=update, deadline=deadline, reply=updated):
                key = ReplicaKey(update.voter_id, update.voter_directory_id)
                told = Voter(key, update.listeners, update.kraft_versions)
                change = VoterChange(f"update {key}", deadline, answering(updated, self._update_response))
                return change, lambda change: self._update(change, told)
            case UpdateFeaturesReceived(request=features, deadline=deadline, reply=upgraded):
                give_answer = answering(upgraded, lambda error, reason: _features_response(features, error, reason))
                change = VoterChange("upgrade kraft.version", deadline, give_answer)
                return change, lambda change: self._upgrade(change, features)
            case ReassignVotersReceived(target=target, deadline=deadline, reply=reassigned):
                what = "cancel reassignment" if target is None else f"reassign to {', '.join(map(str, target))}"
                change = VoterChange(what, deadline, answering(reassigned, ReassignmentAnswer))
                return change, lambda change: self._reassign(change, message)
            case TransferLeadershipReceived(voter_id=voter_id, deadline=deadline, reply=transferred):
                give_answer = answering(transferred, TransferLeadershipResponse)
                change = VoterChange(f"transfer the leadership to {voter_id}", deadline, give_answer)
                return change, lambda change: self._transfer.to(change, voter_id)

    async def _make(self, change: VoterChange, make: MakeChange) -> None:
        """Take the steps of one change, until its deadline."""
        try:
            with change.deadline_scope:
                await make(change)
            if change.deadline_scope.cancelled_caught:
                change.answer(ErrorCode.request_timed_out, f"out of time while waiting for {change.waits_for}")
        except ChangeRefusedError as refused:
            change.answer(refused.error, str(refused))
        except Exception as error:
            if change.offset is not None or change.is_answered:
                # Its record is in the log, or nobody requested it: the error ends the node.
                raise
            self._context.failures.note(error, change.what)
            change.answer(ErrorCode.unknown_server_error)
        self._under_way.remove(change)

    def _abandon_waiting(self) -> None:
        """Answer NOT_LEADER_OR_FOLLOWER, as the epoch is over (KIP-853).  An appended record commits or vanishes."""
        self._under_way += [self._change_of(message)[0] for message in drain(self._mailbox)]
        self._mailbox.close()
        for change in self._under_way:
            appended = "" if change.offset is None else f"; appended at offset {change.offset}, it may still commit"
            change.answer(ErrorCode.not_leader_or_follower, f"lost the leadership while waiting{appended}")

    # The changes, step by step

    async def _add(self, change: VoterChange, voter: Voter, ack_when_committed: bool) -> None:
        """KIP-853 "AddVoter", "Handling".

        1. Wait until no VotersRecord is uncommitted.
        2. Wait until the LeaderChangeMessage of this epoch is committed; then the version and the id are checked.
        3. Ask the new voter, on the listener that the quorum will use, for its ApiVersions.
        4. Check that it serves Vote there, and supports the finalized kraft.version.
        5. Wait until it has caught up with this log.
        6. When it is this change's turn, check again, also that it is no broker, and append the VotersRecord.
        7. The record is in force at once, because the log folds it.
        8. Wait until the majority of the new set has committed it.
        9. Answer.
        """
        require(check_new_voter(voter, self._context.config.controller_listener_name))
        async with self._steps.in_turn(change):  # 1, 2
            self._require_dynamic_voters()
            self._require_no_reassignment()
            require(add_voter(self._steps.voters, voter))
        versions = require(await self._steps.ask_versions(change, voter))  # 3
        self._require_supported(voter.key, versions)  # 4
        while change.offset is None:
            await self._steps.until_caught_up(change, voter.key)  # 5
            async with self._steps.in_turn(change):
                if self._steps.is_caught_up(voter.key):
                    self._require_no_reassignment()
                    require(self._steps.broker_problem(voter.key))
                    voters = require(add_voter(self._steps.voters, attrs.evolve(voter, kraft_versions=versions)))
                    await self._steps.append(change, self._steps.record_of(voters))  # 6, 7
                    if not ack_when_committed:
                        change.answer(ErrorCode.none)
                    await self._steps.until_committed(change)  # 8, 9

    async def _remove(self, change: VoterChange, key: ReplicaKey) -> None:
        """KIP-853 "RemoveVoter", "Handling".

        1. Wait until no VotersRecord is uncommitted.
        2. Wait until the LeaderChangeMessage of this epoch is committed; then the version and the key are checked.
        3. Append the VotersRecord.
        4. The record is in force at once, because the log folds it.
        5. Wait until the majority of the new set has committed it.
        6. Answer.
        7. Resign if this leader has been removed.
        """
        async with self._steps.in_turn(change):  # 1, 2
            self._require_dynamic_voters()
            self._require_no_reassignment()
            voters = require(remove_voter(self._steps.voters, key))
            await self._steps.append(change, self._steps.record_of(voters))  # 3, 4
            await self._steps.until_committed(change)  # 5, 6
            if not self._steps.voters.is_voter(self._key):  # 7
                await self._context.tell_election(LeadershipLost(self._context.stamp, "removed from the voters"))

    async def _update(self, change: VoterChange, voter: Voter) -> None:
        """KIP-853 "UpdateVoter", "Handling".

        1. Wait until no VotersRecord is uncommitted.
        2. Wait until the LeaderChangeMessage of this epoch is committed.
        3. Check that the voter supports the finalized kraft.version.  If its address is new, check that something
           answers there, so that no unreachable address becomes part of the set (KAFKA-20661).
        4. Fill in its directory id if the set does not know it.
        5. Append the VotersRecord if anything is new.  With kraft.version 0, only note the voter for the upgrade.
        6. The record is in force at once, because the log folds it.
        7. Wait until the majority of the set has committed it.
        8. Answer.
        """
        require(check_new_voter(voter, self._context.config.controller_listener_name))
        async with self._steps.in_turn(change):  # 1, 2
            require(update_voter(self._steps.voters, voter))
            self._require_not_of_itself(voter)
            self._require_supported(voter.key, voter.kraft_versions)  # 3
        if self._is_elsewhere(voter):
            require(await self._steps.ask_versions(change, voter))
        async with self._steps.in_turn(change):
            voters = require(update_voter(self._steps.voters, voter))  # 4
            if self._log.voters.kraft_version == 0:
                self._reported[voter.id] = voter  # 5
            elif voters != self._steps.voters:
                await self._steps.append(change, self._steps.record_of(voters))  # 5, 6
                await self._steps.until_committed(change)  # 7
        change.answer(ErrorCode.none)  # 8

    def _is_elsewhere(self, voter: Voter) -> bool:
        """Whether the voter's address on the quorum's listener is not the one that the set has."""
        listener = self._context.config.controller_listener_name
        known = self._steps.voters.get(voter.id)
        return known is None or known.endpoints.get(listener) != voter.endpoints.get(listener)

    async def _update_own_entry(self, change: VoterChange) -> None:
        """Update this leader's own entry, if the first batch of the epoch could not do it (KIP-853)."""
        await self._context.own_address.until_it_may_be_listed()
        async with self._steps.in_turn(change):
            own = self._own
            known = self._steps.voters.get(own.id)
            if self._log.voters.kraft_version > 0 and known is not None and known.key == own.key and known != own:
                await self._steps.append(change, self._steps.record_of(require(update_voter(self._steps.voters, own))))
                await self._steps.until_committed(change)

    async def _upgrade(self, change: VoterChange, request: UpdateFeaturesRequest) -> None:
        """KIP-853 "UpdateFeatures", "Handling", in the change's turn.

        1. Check that the voters support the version, as they have reported.
        2. Check that the observers support it, as they have told or the application has reported.
        3. Append the version and the voters in one batch.
        4. Answer when the batch is committed.
        """
        update = _kraft_version_update(request)
        wanted, is_downgrade = update.max_version_level, update.upgrade_type is not UpgradeType.UPGRADE
        async with self._steps.in_turn(change):
            current = self._log.voters.kraft_version
            require(check_kraft_version(current, wanted, SUPPORTED_KRAFT_VERSIONS, is_downgrade=is_downgrade))
            if wanted > current:
                static = self._steps.voters
                told = self._progress.observer_versions(static, trio.current_time())
                observers = {**told, **self._observer_versions}
                reported = {**self._reported, self._key.id: self._context.own_address.entry_of(self._key, static)}
                voters = require(upgrade_voters(static, reported, wanted, observers))  # 1, 2
                if not request.validate_only:
                    await self._steps.append(change, KRaftVersion(wanted), VotersRecord(voters))  # 3
                    await self._steps.until_committed(change)
        change.answer(ErrorCode.none)  # 4

    async def _reassign(self, change: VoterChange, message: ReassignVotersReceived) -> None:
        """KIP-642 "AlterPartitionReassignments Request Handling", in the change's turn.

        1. Find the replicas that the ids name.
        2. If the target is new, append it with the voters in force.
        3. Answer when it is committed.  Reassignment takes the steps.
        """
        async with self._steps.in_turn(change):
            self._require_dynamic_voters()
            target = require(self._reassignment.target_of(message.target, message.may_change_count))  # 1
            if target != self._log.voters.target:
                await self._steps.append(change, VotersRecord(self._steps.voters, target))  # 2
                await self._steps.until_committed(change)
        change.answer(ErrorCode.none)  # 3

    # Checks

    def _require_no_reassignment(self) -> None:
        target = self._log.voters.target
        if target:
            names = ", ".join(map(str, target))
            raise ChangeRefusedError(
                Refused(
                    Refusal.REASSIGNMENT_IN_PROGRESS,
                    f"the voters are being reassigned to {names}: wait for it, or cancel it",
                )
            )

    def _require_dynamic_voters(self) -> None:
        if self._log.voters.kraft_version == 0:
            raise ChangeRefusedError(
                Refused(Refusal.UNSUPPORTED_VERSION, "kraft.version is 0: its voters cannot be changed")
            )

    def _require_supported(self, key: ReplicaKey, versions: VersionRange) -> None:
        current = self._log.voters.kraft_version
        if not versions.includes(current):
            raise ChangeRefusedError(
                Refused(
                    Refusal.INVALID_REQUEST,
                    f"replica {key} supports kraft.version {versions.minimum} to {versions.maximum}, it is {current}",
                )
            )

    def _require_not_of_itself(self, voter: Voter) -> None:
        """Refuse an update of this leader's own entry.  It sends no updates that could correct a wrong one."""
        if voter.id == self._key.id and voter != self._own:
            raise ChangeRefusedError(
                Refused(
                    Refusal.INVALID_REQUEST, f"voter {voter.id}: this leader is {self._key}, and knows where it listens"
                )
            )

    # Answers

    def _update_response(self, error: ErrorCode, _reason: str | None) -> UpdateRaftVoterResponse:
        config = self._context.config
        endpoint = config.advertised_endpoints().get(config.controller_listener_name)
        return UpdateRaftVoterResponse(error, self._key.id, self._context.epoch, endpoint)


def _kraft_version_update(request: UpdateFeaturesRequest) -> FeatureUpdate:
    """The update of kraft.version.  Raises ChangeRefusedError unless it is the only update requested."""
    names = [update.feature for update in request.updates]
    if names != [KRAFT_VERSION]:
        given = ", ".join(name[:MAX_QUOTED_CHARACTERS] for name in names[:MAX_QUOTED_FEATURES]) or "none"
        if len(names) > MAX_QUOTED_FEATURES:
            given += f" and {len(names) - MAX_QUOTED_FEATURES} more"
        raise ChangeRefusedError(Refused(Refusal.INVALID_REQUEST, f"features {given}: expected {KRAFT_VERSION} alone"))
    return request.updates[0]


def _features_response(request: UpdateFeaturesRequest, error: ErrorCode, reason: str | None) -> UpdateFeaturesResponse:
    """Versions 0 and 1 repeat the error for each feature, and the reason too if there are few features."""
    features = dict.fromkeys(update.feature for update in request.updates)
    repeated = reason if len(features) <= MAX_QUOTED_FEATURES else None
    return UpdateFeaturesResponse(error, reason, tuple(FeatureResult(feature, error, repeated) for feature in features))
