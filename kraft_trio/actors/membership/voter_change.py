"""One voter change: what it waits for, its deadline, and its answer."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.channels import Reply
from kraft_trio.errors import NetworkError, StorageFailure, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import ReplicaKey, VersionRange
from kraft_trio.protocol.voter_changes import Refused, serves_no_votes, tells_no_listener
from kraft_trio.protocol.voter_set import KRAFT_VERSION, Voter, VoterSet
from kraft_trio.storage.batches.control_records import ControlRecord, VotersRecord
from kraft_trio.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from kraft_trio.wire.apis.vote import VOTE
from kraft_trio.wire.error_codes import REFUSALS, ErrorCode

log = get_logger(__name__)

T = TypeVar("T")

ASK_AGAIN_S: Final = (0.05, 0.5)
"""The first and the longest wait before asking a voter again.  It doubles each time."""

GiveAnswer = Callable[[ErrorCode, str | None], None]


class ChangeRefusedError(Exception):
    """A step of a voter change refuses it."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.error = REFUSALS[refused.error]


def require(outcome: T | Refused) -> T:
    """Return what a rule has made.  Raises ChangeRefusedError if the rule refused."""
    if isinstance(outcome, Refused):
        raise ChangeRefusedError(outcome)
    return outcome


@attrs.define(eq=False)
class VoterChange:
    """A requested change, or one that the leader makes on its own.  `give_answer` sends the response."""

    what: str
    deadline: float
    """On Trio's clock; infinite if nobody requested the change."""
    give_answer: GiveAnswer
    deadline_scope: trio.CancelScope = attrs.field(init=False)
    """Cancels the change at its deadline.  Disarmed once the record is appended."""
    waits_for: str = "earlier voter changes"
    offset: int | None = None
    """The offset of its record, once that is appended or may be."""
    is_answered: bool = False

    def __attrs_post_init__(self) -> None:
        self.deadline_scope = trio.CancelScope(deadline=self.deadline)

    @classmethod
    def unasked(cls, what: str) -> VoterChange:
        """A change of the leader's own: it has no deadline, and nobody waits for an answer."""
        return cls(what, math.inf, lambda _error, _reason: None, is_answered=True)

    def appended_at(self, offset: int) -> None:
        """Note the offset of the record.  From now on the deadline ends the wait for the answer, not the change."""
        self.offset = offset
        self.deadline_scope.deadline = math.inf
        log.info("voter change appended", change=self.what, offset=offset)

    def answer(self, error: ErrorCode, reason: str | None = None) -> None:
        """Answer the request, unless it has been answered."""
        if not self.is_answered:
            self.is_answered = True
            log.info("voter change answered", change=self.what, error=error.name, reason=reason)
            self.give_answer(error, reason)


def answering(reply: Reply[T], make: Callable[[ErrorCode, str | None], T]) -> GiveAnswer:
    """Return a function that answers with the response that `make` makes of an error code and a reason."""
    return lambda error, reason: reply.answer(make(error, reason))


class VoterChangeSteps:
    """The steps that all voter changes of one epoch share.

    Each step that waits first says what it waits for, in the change's `waits_for`.
    """

    def __init__(self, context: EpochContext, leader: LeaderReplication) -> None:
        self._context = context
        self._leader = leader
        self._log = context.log
        self._turn = trio.Lock()

    @property
    def voters(self) -> VoterSet:
        """The voter set in force now."""
        return self._log.voters.voters

    @asynccontextmanager
    async def in_turn(self, change: VoterChange) -> AsyncIterator[None]:
        """Wait until no other change has its turn or is uncommitted, and the epoch has a commit.

        If the set in force does not name this leader, it is about to resign, and the turn never comes.
        """
        change.waits_for = "earlier voter changes"
        async with self._turn:
            await self._until_nothing_is_pending(change)
            await self._until_epoch_is_committed(change)
            if not self.voters.is_voter(self._context.key):
                change.waits_for = "the next leader"
                await trio.sleep_forever()
            yield

    async def _until_nothing_is_pending(self, change: VoterChange) -> None:
        """At most one VotersRecord is uncommitted (invariant OneUncommittedVoterChange)."""
        change.waits_for = "an earlier voter change to commit"
        while self._log.voters.uncommitted(self._log.high_watermark):
            await self._log.changed.park()

    async def _until_epoch_is_committed(self, change: VoterChange) -> None:
        """After this, no other leader's voter set can replace this one's (invariant NoEarlyVoterChange)."""
        change.waits_for = f"a commit in epoch {self._context.epoch}"
        while self._leader.high_watermark is None:
            await self._log.changed.park()

    async def until_caught_up(self, change: VoterChange, key: ReplicaKey) -> None:
        """Wait until the replica has what this log has, so that the new majority need not wait for it."""
        change.waits_for = f"replica {key} to catch up with the leader"
        while not self.is_caught_up(key):
            await self._leader.progressed.park()

    def is_caught_up(self, key: ReplicaKey) -> bool:
        """Whether, within the last fetch timeout, the replica held all that this log had at the time."""
        lately = trio.current_time() - self._context.config.fetch_timeout_ms / 1000
        return self._leader.progress.is_caught_up(key, lately)

    def broker_problem(self, key: ReplicaKey) -> Refused | None:
        """The refusal of a broker that serves Vote, because it has a listener of controllers (KAFKA-19021).

        A replica of kraft-trio tells by its Fetch that it is no controller; those of Apache Kafka do not.
        """
        progress = self._leader.progress.get(key)
        if progress is None or progress.kraft_versions is None or len(progress.listeners):
            return None
        return tells_no_listener(key)

    async def ask_versions(self, change: VoterChange, voter: Voter) -> VersionRange | Refused:
        """Ask the voter which kraft.versions it supports, until it answers or the change's time is over.

        Refuses one that serves no votes there, such as a broker (KAFKA-19021).  Uses a separate connection, which it
        closes, because the change may yet be refused.
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
                    if all(api.key != VOTE.key for api in response.apis):
                        return serves_no_votes(voter, endpoint)
                    ranges = (f for f in response.supported_features if f.name == KRAFT_VERSION)
                    feature = next(ranges, None)
                    return VersionRange() if feature is None else VersionRange(feature.min_version, feature.max_version)
                problem = response.error.name
            change.waits_for = f"an answer of replica {voter.key} at {endpoint}: {problem}"
            await trio.sleep(wait_s * self._context.random.uniform(0.8, 1.2))
            wait_s = min(longest_s, wait_s * 2)

    def record_of(self, voters: VoterSet) -> VotersRecord:
        """The record of a set that follows the one in force.  It keeps the target, unless the set reaches it."""
        target = self._log.voters.target
        is_reached = {voter.key for voter in voters} == set(target)
        return VotersRecord(voters, () if is_reached else target)

    async def append(self, change: VoterChange, *records: ControlRecord) -> None:
        """Append the records of the change as one batch; they are in force at once.

        Only call it in turn (invariants OneUncommittedVoterChange and NoEarlyVoterChange).
        """
        # If the time ran out in this step, nothing may be appended.
        await trio.lowlevel.checkpoint_if_cancelled()
        last_offset = self._log.end_offset + len(records) - 1
        try:
            self._leader.append_control(*records)
        except StorageFailure:
            if self._log.poisoned is not None:
                change.offset = last_offset  # The write may have stored the batch, whole.
            raise
        change.appended_at(last_offset)

    async def until_committed(self, change: VoterChange) -> None:
        """Wait until the record is committed.  Answers then, or with REQUEST_TIMED_OUT at the deadline."""
        with trio.CancelScope(deadline=change.deadline):
            await self._until_offset_is_committed(change.offset)
            change.answer(ErrorCode.none)
        change.answer(ErrorCode.request_timed_out, f"appended at offset {change.offset}: it may still commit")
        await self._until_offset_is_committed(change.offset)

    async def _until_offset_is_committed(self, offset: int | None) -> None:
        assert offset is not None, "appended first"
        while (high_watermark := self._log.high_watermark) is None or high_watermark <= offset:
            await self._log.changed.park()
