"""Changes the set of voters, one change at a time (KIP-853).

This is where a voter change waits.  Each request is a task under its own deadline.  It takes its turn when it has a
record to append, and keeps it until that has committed, or the epoch is over; while it waits for a new voter to answer
and to catch up, others may have theirs.  From the append on, the change lives in a cancel scope of its own: commit
closes it, and so does the end of the epoch nursery, which comes before any truncation.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import attrs
import structlog
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.actors.leader_replication import LeaderReplication
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.messages import (
    AddVoterReceived,
    LeadershipLost,
    RemoveVoterReceived,
    Reply,
    UpdateFeaturesReceived,
    UpdateVoterReceived,
    VoterChangeMessage,
)
from kraft_trio.protocol.control_records import ControlRecord, KRaftVersion, VotersRecord
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
from kraft_trio.protocol.voter_set import KRAFT_VERSION, SUPPORTED_KRAFT_VERSIONS, Voter, VoterSet
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterResponse
from kraft_trio.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterResponse
from kraft_trio.wire.apis.update_features import FeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterResponse
from kraft_trio.wire.error_codes import ErrorCode

log = structlog.get_logger(__name__)

T = TypeVar("T")

WAITING: Final = 64
"""How many changes may be under way or wait for their turn; beyond that a request is answered at once."""

ASK_AGAIN_S: Final = (0.05, 0.5)
"""The wait before a voter that gave no answer is asked again: at first, and at most; it doubles each time."""


class _RefusedError(Exception):
    """A step of a change has found why it cannot be made."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.error = ErrorCode[refused.error_name.lower()]


@attrs.define(eq=False)
class _Change:
    """One request on its way.  `give_answer` makes the response of its kind, and gives it."""

    what: str
    deadline: float
    give_answer: Callable[[ErrorCode, str | None], None]
    patience: trio.CancelScope = attrs.field(init=False)
    """Ends the change when its time is over; without a deadline once its record is in the log."""
    waits_for: str = "earlier voter changes"
    offset: int | None = None
    """Of its record, once that is appended."""
    is_answered: bool = False

    def __attrs_post_init__(self) -> None:
        self.patience = trio.CancelScope(deadline=self.deadline)

    def answer(self, error: ErrorCode, reason: str | None = None) -> None:
        """Answer the request, where that has not been done."""
        if not self.is_answered:
            self.is_answered = True
            log.info("voter change answered", change=self.what, error=error.name, reason=reason)
            self.give_answer(error, reason)


Steps = Callable[[_Change], Awaitable[None]]


class VoterChangeCoordinator:
    """The voter changes of one epoch that this node leads; built for the epoch and never reused.

    Requests are answered exactly once: when their change has committed, when they are refused or out of time, and with
    NOT_LEADER_OR_FOLLOWER when the epoch ends before that.
    """

    def __init__(
        self,
        context: EpochContext,
        leader: LeaderReplication,
        mailbox: trio.MemoryReceiveChannel[VoterChangeMessage],
        observer_versions: Mapping[ReplicaKey, VersionRange],
    ) -> None:
        """`observer_versions`: which kraft.versions the observers support, as far as the application has told."""
        self._context = context
        self._key = context.key
        self._leader = leader
        self._log = context.log
        self._mailbox = mailbox
        self._observer_versions = observer_versions
        self._turn = trio.Lock()
        self._under_way: list[_Change] = []
        self._told = {context.key.id: context.config.as_voter(context.key.directory_id)}
        """What static voters have said of themselves in this epoch (kraft.version 0)."""

    async def run(self) -> None:
        """Serve until the epoch ends; whoever still waits then is answered."""
        try:
            async with trio.open_nursery() as nursery:
                self._begin(nursery, _Change("update own entry", math.inf, _nobody_asked), self._update_own_entry)
                async for message in self._mailbox:
                    change, steps = self._change_of(message)
                    self._begin(nursery, change, steps)
        finally:
            self._abandon_waiting()

    def _begin(self, nursery: trio.Nursery, change: _Change, steps: Steps) -> None:
        if len(self._under_way) >= WAITING:
            change.answer(ErrorCode.request_timed_out, f"{WAITING} voter changes are waiting already")
            return
        self._under_way.append(change)
        nursery.start_soon(self._make, change, steps)

    def _change_of(self, message: VoterChangeMessage) -> tuple[_Change, Steps]:
        """What is to be done, and how it is answered."""
        match message:
            case AddVoterReceived(request=add, deadline=deadline, reply=reply):
                voter = Voter(ReplicaKey(add.voter_id, add.voter_directory_id), add.listeners)
                change = _Change(f"add {voter.key}", deadline, _answering(reply, AddRaftVoterResponse))
                return change, lambda change: self._add(change, voter, add.ack_when_committed)
            case RemoveVoterReceived(request=remove, deadline=deadline, reply=removed):
                key = ReplicaKey(remove.voter_id, remove.voter_directory_id)
                change = _Change(f"remove {key}", deadline, _answering(removed, RemoveRaftVoterResponse))
                return change, lambda change: self._remove(change, key)
            case UpdateVoterReceived(request=update, deadline=deadline, reply=updated):
                key = ReplicaKey(update.voter_id, update.voter_directory_id)
                told = Voter(key, update.listeners, update.kraft_versions)
                change = _Change(f"update {key}", deadline, _answering(updated, self._update_response))
                return change, lambda change: self._update(change, told)
            case UpdateFeaturesReceived(request=features, deadline=deadline, reply=upgraded):
                answering = _answering(upgraded, lambda error, reason: _features_response(features, error, reason))
                change = _Change("upgrade kraft.version", deadline, answering)
                return change, lambda change: self._upgrade(change, features)

    async def _make(self, change: _Change, steps: Steps) -> None:
        """Take the steps of one change, in its time."""
        try:
            with change.patience:
                await steps(change)
            change.answer(ErrorCode.request_timed_out, f"out of time while waiting for {change.waits_for}")
        except _RefusedError as refused:
            change.answer(refused.error, str(refused))
        self._under_way.remove(change)

    def _abandon_waiting(self) -> None:
        """The epoch is over (KIP-853: NOT_LEADER_OR_FOLLOWER); a record that was appended commits or vanishes."""
        while True:
            try:
                self._under_way.append(self._change_of(self._mailbox.receive_nowait())[0])
            except (trio.WouldBlock, trio.EndOfChannel):
                break
        self._mailbox.close()
        for change in self._under_way:
            appended = "" if change.offset is None else f"; appended at offset {change.offset}, it may still commit"
            change.answer(ErrorCode.not_leader_or_follower, f"lost the leadership while waiting{appended}")

    # The changes, step by step

    async def _add(self, change: _Change, voter: Voter, ack_when_committed: bool) -> None:
        """KIP-853 "AddVoter", "Handling".

        1. Wait until no VotersRecord is uncommitted.
        2. Wait until the LeaderChangeMessage of this epoch is committed; then the version and the id are checked.
        3. Ask the new voter, on the listener that the quorum will use, for its ApiVersions.
        4. Check that it supports the finalized kraft.version.
        5. Wait until it has caught up with this log.
        6. Append the VotersRecord, when it is this change's turn and what was found still holds,
        7. which is in force at once, as the log folds it.
        8. Wait until the majority of the new set has committed it.
        9. Answer.
        """
        _require(check_new_voter(voter, self._context.config.controller_listener_name))
        async with self._in_turn(change):  # 1, 2
            self._require_dynamic_voters()
            _require(add_voter(self._voters, voter))
        versions = await self._ask_versions(change, voter)  # 3
        self._require_supported(voter.key, versions)  # 4
        while change.offset is None:
            await self._until_caught_up(change, voter.key)  # 5
            async with self._in_turn(change):
                if self._is_caught_up(voter.key):
                    voters = _require(add_voter(self._voters, attrs.evolve(voter, kraft_versions=versions)))
                    await self._append(change, VotersRecord(voters))  # 6, 7
                    if not ack_when_committed:
                        change.answer(ErrorCode.none)
                    await self._until_committed(change)  # 8, 9

    async def _remove(self, change: _Change, key: ReplicaKey) -> None:
        """KIP-853 "RemoveVoter", "Handling": wait as AddVoter does, append, wait for the new majority, answer.

        A leader that has removed itself resigns then, and not before the answer is given.
        """
        async with self._in_turn(change):
            self._require_dynamic_voters()
            await self._append(change, VotersRecord(_require(remove_voter(self._voters, key))))
            await self._until_committed(change)
            if not self._voters.is_voter(self._key):
                await self._context.tell_election(LeadershipLost(self._context.stamp, "removed from the voters"))

    async def _update(self, change: _Change, voter: Voter) -> None:
        """KIP-853 "UpdateVoter", "Handling"; with kraft.version 0 only noted, for the upgrade.

        The endpoint is tried first, so that one that nobody reaches never becomes part of the set (KAFKA-20661).
        """
        _require(check_new_voter(voter, self._context.config.controller_listener_name))
        async with self._in_turn(change):
            voters = _require(update_voter(self._voters, voter))
            if self._log.voters.kraft_version == 0:
                self._told[voter.id] = voter
                voters = self._voters
            else:
                self._require_supported(voter.key, voter.kraft_versions)
        if voters != self._voters:
            await self._ask_versions(change, voter)
            async with self._in_turn(change):
                await self._append(change, VotersRecord(_require(update_voter(self._voters, voter))))
                await self._until_committed(change)
        change.answer(ErrorCode.none)

    async def _update_own_entry(self, change: _Change) -> None:
        """Bring this leader's own entry up to date, where the first batch of the epoch could not (KIP-853)."""
        async with self._in_turn(change):
            own = self._context.config.as_voter(self._key.directory_id)
            known = self._voters.get(own.id)
            if self._log.voters.kraft_version > 0 and known is not None and known.key == own.key and known != own:
                await self._append(change, VotersRecord(_require(update_voter(self._voters, own))))
                await self._until_committed(change)
        change.answer(ErrorCode.none)

    async def _upgrade(self, change: _Change, request: UpdateFeaturesRequest) -> None:
        """KIP-853 "UpdateFeatures", "Handling": kraft.version and the voters in one batch, answered when committed."""
        wanted = _wanted_kraft_version(request)
        async with self._in_turn(change):
            current = self._log.voters.kraft_version
            _require(check_kraft_version(current, wanted, SUPPORTED_KRAFT_VERSIONS))
            if wanted > current:
                voters = _require(upgrade_voters(self._voters, self._told, wanted, self._observer_versions))
                if not request.validate_only:
                    await self._append(change, KRaftVersion(wanted), VotersRecord(voters))
                    await self._until_committed(change)
        change.answer(ErrorCode.none)

    # The steps

    @property
    def _voters(self) -> VoterSet:
        """The set in force, read again at each step."""
        return self._log.voters.voters

    @asynccontextmanager
    async def _in_turn(self, change: _Change) -> AsyncIterator[None]:
        """A turn of this change: nothing is pending, the epoch is committed, and no other change goes on meanwhile.

        It never comes once this leader is out of its own set, as it is about to resign.
        """
        change.waits_for = "earlier voter changes"
        async with self._turn:
            await self._until_nothing_is_pending(change)
            await self._until_epoch_is_committed(change)
            if not self._voters.is_voter(self._key):
                change.waits_for = "the next leader"
                await trio.sleep_forever()
            yield

    async def _until_nothing_is_pending(self, change: _Change) -> None:
        """Invariant 12: one uncommitted VotersRecord at most."""
        change.waits_for = "an earlier voter change to commit"
        while self._log.voters.uncommitted(self._log.high_watermark):
            await self._log.changed.park()

    async def _until_epoch_is_committed(self, change: _Change) -> None:
        """Invariant 14: no other leader's set can win over this one's any more (the single-server bug of 2015)."""
        change.waits_for = f"a commit in epoch {self._context.epoch}"
        while self._leader.high_watermark is None:
            await self._log.changed.park()

    async def _until_caught_up(self, change: _Change, key: ReplicaKey) -> None:
        change.waits_for = f"replica {key} to catch up with the leader"
        while not self._is_caught_up(key):
            await self._leader.progressed.park()

    def _is_caught_up(self, key: ReplicaKey) -> bool:
        """Whether the replica has lately fetched all that this log had: it will not keep the new majority waiting."""
        lately = trio.current_time() - self._context.config.fetch_timeout_ms / 1000
        return self._leader.progress.is_caught_up(key, lately)

    async def _ask_versions(self, change: _Change, voter: Voter) -> VersionRange:
        """The kraft.versions that the voter says it supports, asked again until it answers or the time is over.

        Over a connection of its own: nothing is left of it where the change is refused.
        """
        config = self._context.config
        endpoint = voter.endpoints.get(config.controller_listener_name)
        assert endpoint is not None, "checked before"
        wait_s, longest_s = ASK_AGAIN_S
        change.waits_for = f"an answer of replica {voter.key} at {endpoint}"
        while True:
            try:
                response = await self._context.client.request_apart(
                    endpoint, API_VERSIONS, ApiVersionsRequest(), config.request_timeout_ms
                )
            except (NetworkError, UnsupportedVersionError) as error:
                problem = str(error)
            else:
                if response.error == ErrorCode.none:
                    ranges = (f for f in response.supported_features if f.name == KRAFT_VERSION)
                    feature = next(ranges, None)
                    return VersionRange() if feature is None else VersionRange(feature.min_version, feature.max_version)
                problem = response.error.name
            change.waits_for = f"an answer of replica {voter.key} at {endpoint}: {problem}"
            await trio.sleep(wait_s * self._context.random.uniform(0.8, 1.2))
            wait_s = min(longest_s, wait_s * 2)

    async def _append(self, change: _Change, *records: ControlRecord) -> None:
        """From here on the change cannot be called back: its deadline ends the wait for the answer, not the change.

        In turn only, so that invariants 12 and 14 hold.
        """
        # Its time may have run out in this very step: then nothing is appended, and nothing waited for.
        await trio.lowlevel.checkpoint_if_cancelled()
        change.offset = self._leader.append_control(*records) - 1
        change.patience.deadline = math.inf
        log.info("voter change appended", change=change.what, offset=change.offset)

    async def _until_committed(self, change: _Change) -> None:
        """Wait for the majority of the set in force; answers, in time or when it is too late."""
        with trio.CancelScope(deadline=change.deadline):
            await self._until_offset_is_committed(change.offset)
            change.answer(ErrorCode.none)
        change.answer(ErrorCode.request_timed_out, f"appended at offset {change.offset}: it may still commit")
        await self._until_offset_is_committed(change.offset)

    async def _until_offset_is_committed(self, offset: int | None) -> None:
        assert offset is not None, "appended first"
        while (high_watermark := self._log.high_watermark) is None or high_watermark <= offset:
            await self._log.changed.park()

    # What has to hold

    def _require_dynamic_voters(self) -> None:
        if self._log.voters.kraft_version == 0:
            raise _RefusedError(Refused("UNSUPPORTED_VERSION", "kraft.version is 0: its voters cannot be changed"))

    def _require_supported(self, key: ReplicaKey, versions: VersionRange) -> None:
        current = self._log.voters.kraft_version
        if not versions.includes(current):
            raise _RefusedError(
                Refused(
                    "INVALID_REQUEST",
                    f"replica {key} supports kraft.version {versions.minimum} to {versions.maximum}, it is {current}",
                )
            )

    # Answers

    def _update_response(self, error: ErrorCode, _reason: str | None) -> UpdateRaftVoterResponse:
        config = self._context.config
        endpoint = config.advertised_endpoints().get(config.controller_listener_name)
        return UpdateRaftVoterResponse(error, self._key.id, self._context.epoch, endpoint)


def _require(outcome: T | Refused) -> T:
    if isinstance(outcome, Refused):
        raise _RefusedError(outcome)
    return outcome


def _nobody_asked(_error: ErrorCode, _reason: str | None) -> None:
    pass


def _answering(reply: Reply[T], make: Callable[[ErrorCode, str | None], T]) -> Callable[[ErrorCode, str | None], None]:
    return lambda error, reason: reply.answer(make(error, reason))


def _wanted_kraft_version(request: UpdateFeaturesRequest) -> int:
    """The level asked for.  Raises _RefusedError for any other feature, or none."""
    names = [update.feature for update in request.updates]
    if names != [KRAFT_VERSION]:
        given = ", ".join(names) or "none"
        raise _RefusedError(Refused("INVALID_REQUEST", f"features {given}: expected {KRAFT_VERSION} alone"))
    return request.updates[0].max_version_level


def _features_response(request: UpdateFeaturesRequest, error: ErrorCode, reason: str | None) -> UpdateFeaturesResponse:
    """Versions 0 and 1 repeat the outcome for each feature."""
    return UpdateFeaturesResponse(
        error, reason, tuple(FeatureResult(update.feature, error, reason) for update in request.updates)
    )
