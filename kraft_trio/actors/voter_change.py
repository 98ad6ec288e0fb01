"""One voter change on its way, from the request to its answer."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import attrs
import structlog
import trio

from kraft_trio.actors.epoch_context import EpochContext
from kraft_trio.actors.leader_replication import LeaderReplication
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.messages import Reply
from kraft_trio.protocol.types import ReplicaKey, VersionRange
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.protocol.voter_set import KRAFT_VERSION, Voter, VoterSet
from kraft_trio.storage.control_records import ControlRecord
from kraft_trio.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from kraft_trio.wire.error_codes import ErrorCode

log = structlog.get_logger(__name__)

T = TypeVar("T")

ASK_AGAIN_S: Final = (0.05, 0.5)
"""The wait before a voter that gave no answer is asked again: at first, and at most; it doubles each time."""

GiveAnswer = Callable[[ErrorCode, str | None], None]


class ChangeRefusedError(Exception):
    """A step of a change has found why it cannot be made."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.error = ErrorCode[refused.error_name.lower()]


def require(outcome: T | Refused) -> T:
    """What a rule has made, or ChangeRefusedError."""
    if isinstance(outcome, Refused):
        raise ChangeRefusedError(outcome)
    return outcome


@attrs.define(eq=False)
class VoterChange:
    """One request on its way, or what the leader does unasked.  `give_answer` makes the response of its kind, and
    gives it."""

    what: str
    deadline: float
    """Trio's clock; infinite where nobody asked."""
    give_answer: GiveAnswer
    deadline_scope: trio.CancelScope = attrs.field(init=False)
    """The scope that the change lives in: it ends the change when its time is over, and no more once its record is in
    the log."""
    waits_for: str = "earlier voter changes"
    offset: int | None = None
    """Of its record, once that is appended."""
    is_answered: bool = False

    def __attrs_post_init__(self) -> None:
        self.deadline_scope = trio.CancelScope(deadline=self.deadline)

    @classmethod
    def unasked(cls, what: str) -> VoterChange:
        """A change that no request is for: it has all the time there is, and nobody to answer."""
        return cls(what, math.inf, lambda _error, _reason: None, is_answered=True)

    def appended_at(self, offset: int) -> None:
        """From here on the change cannot be called back: its deadline ends the wait for the answer, and not itself."""
        self.offset = offset
        self.deadline_scope.deadline = math.inf
        log.info("voter change appended", change=self.what, offset=offset)

    def answer(self, error: ErrorCode, reason: str | None = None) -> None:
        """Answer the request, where that has not been done."""
        if not self.is_answered:
            self.is_answered = True
            log.info("voter change answered", change=self.what, error=error.name, reason=reason)
            self.give_answer(error, reason)


def answering(reply: Reply[T], make: Callable[[ErrorCode, str | None], T]) -> GiveAnswer:
    """Answers that request with what `make` makes of an error code and a reason."""
    return lambda error, reason: reply.answer(make(error, reason))


class VoterChangeSteps:
    """The steps that the voter changes of one epoch have in common.

    This is where a voter change waits; it says in `waits_for` what for.
    """

    def __init__(self, context: EpochContext, leader: LeaderReplication) -> None:
        self._context = context
        self._leader = leader
        self._log = context.log
        self._turn = trio.Lock()

    @property
    def voters(self) -> VoterSet:
        """The set in force, read again at each step."""
        return self._log.voters.voters

    @asynccontextmanager
    async def in_turn(self, change: VoterChange) -> AsyncIterator[None]:
        """A turn of this change: nothing is pending, the epoch is committed, and no other change goes on meanwhile.

        It never comes once this leader is out of its own set, as it is about to resign.
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
        """No other leader's set can win over this one's any more (invariant NoEarlyVoterChange)."""
        change.waits_for = f"a commit in epoch {self._context.epoch}"
        while self._leader.high_watermark is None:
            await self._log.changed.park()

    async def until_caught_up(self, change: VoterChange, key: ReplicaKey) -> None:
        """Wait until the replica has what this log has: it will not keep the new majority waiting."""
        change.waits_for = f"replica {key} to catch up with the leader"
        while not self.is_caught_up(key):
            await self._leader.progressed.park()

    def is_caught_up(self, key: ReplicaKey) -> bool:
        """Whether the replica has held all that this log had at some time within the last fetch timeout."""
        lately = trio.current_time() - self._context.config.fetch_timeout_ms / 1000
        return self._leader.progress.is_caught_up(key, lately)

    async def ask_versions(self, change: VoterChange, voter: Voter) -> VersionRange:
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

    async def append(self, change: VoterChange, *records: ControlRecord) -> None:
        """Append the records of the change as one batch, in force from then on.

        In turn only, for invariants OneUncommittedVoterChange and NoEarlyVoterChange.
        """
        # Its time may have run out in this very step: then nothing is appended, and nothing waited for.
        await trio.lowlevel.checkpoint_if_cancelled()
        change.appended_at(self._leader.append_control(*records) - 1)

    async def until_committed(self, change: VoterChange) -> None:
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
