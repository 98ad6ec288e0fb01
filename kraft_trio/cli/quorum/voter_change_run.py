"""Makes one voter change: checks it first, requests it, and finds out the result if the answer is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import attrs
import trio

from kraft_trio.cli.quorum.quorum_options import described
from kraft_trio.cli.quorum.voter_plan import VoterPlan, plan_add, plan_remove
from kraft_trio.cli.terminal.output import echo_line
from kraft_trio.client.admin import NOT_LEADING, AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.errors import KraftError, NetworkError, OutcomeUnknownError
from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.wire.error_codes import ErrorCode

LOOK_AGAIN_S: Final = 0.2
GIVEN_UP_S: Final = 1.0
"""Between a leader's answer that it gave up, and asking it again."""

_MAY_HAVE_HAPPENED: Final = (ErrorCode.request_timed_out, *NOT_LEADING)
DONE_BY_OTHERS: Final = (ErrorCode.voter_not_found, ErrorCode.duplicate_voter)
"""Someone else made the change first, such as a node that joins by itself."""


def tell(note: str) -> None:
    """Print a note on stderr, next to the command's output."""
    echo_line(f"kraft: note: {note}", err=True)


class ChangeRefused(KraftError):
    """The change was not requested, because it would do harm or cannot be made."""


class _NotDoneError(KraftError):
    """The outcome was unknown, and the change is not done.  `is_final` if the leader has not said that it gave up."""

    def __init__(self, message: str, is_final: bool) -> None:
        self.is_final = is_final
        super().__init__(message)


@attrs.frozen
class ChangeRun:
    """What all changes of one command share.  Times are in milliseconds."""

    client: AdminClient
    find_leader_ms: int
    timeout_ms: int
    fetch_timeout_ms: int
    """A voter that has not kept up for this long does not count as up."""
    force: bool = False

    async def describe(self) -> QuorumDescription:
        """Raises NetworkError without a leader, after printing each node's view."""
        return await described(self.client, self.find_leader_ms)

    async def add(self, key: ReplicaKey, listeners: Endpoints, cluster_id: str | None) -> str | None:
        """Make the replica a voter.  If it already is one, return a line that says so, once that has committed.

        Raises ChangeRefused, and the errors of AdminClient.
        """
        plan = await self.checked(lambda quorum: plan_add(quorum, key, self.fetch_timeout_ms, listeners, cluster_id))
        if plan.already is not None:
            await self.settled()
            return plan.already
        return await self._made_sure(
            lambda left_ms: self.client.add_metadata_voter(key, listeners, cluster_id=cluster_id, timeout_ms=left_ms),
            lambda quorum: quorum.voter(key) is not None,
        )

    async def remove(self, key: ReplicaKey, cluster_id: str | None) -> str | None:
        """Remove exactly that replica from the voters.  If it is no voter, return that instead, once it has committed.

        Raises ChangeRefused, and the errors of AdminClient.
        """
        plan = await self.checked(lambda quorum: plan_remove(quorum, key, self.fetch_timeout_ms))
        if plan.already is not None:
            await self.settled()
            return plan.already
        return await self._made_sure(
            lambda left_ms: self.client.remove_metadata_voter(key, cluster_id=cluster_id, timeout_ms=left_ms),
            lambda quorum: quorum.voter(key) is None,
        )

    async def checked(self, make_plan: Callable[[QuorumDescription], VoterPlan]) -> VoterPlan:
        """Check the plan against the current quorum and print its notes.  Raises ChangeRefused for objections unless
        `force`.

        Voters that seem to lag get time to catch up: right after an election nobody has fetched from the new leader.
        """
        plan = await self.looked_at(make_plan)
        for objection in plan.objections if self.force else ():
            echo_line(f"kraft: warning: {objection}", err=True)
        if plan.objections and not self.force:
            # Any other objection would also be the leader's.
            hint = " (--force sends the request anyway)" if plan.may_pass else ""
            raise ChangeRefused(f"refused: {'; '.join(plan.objections)}{hint}")
        for note in plan.notes:
            tell(note)
        return plan

    async def looked_at(self, make_plan: Callable[[QuorumDescription], VoterPlan]) -> VoterPlan:
        """The plan for the current quorum, with its objections."""
        deadline = trio.current_time() + self.fetch_timeout_ms / 1000
        while True:
            plan = make_plan(await self.describe())
            if not plan.may_pass or self.force or trio.current_time() > deadline:
                return plan
            await trio.sleep(LOOK_AGAIN_S)

    async def settled(self) -> QuorumDescription:
        """The quorum once all its voter changes have committed.  Raises OutcomeUnknownError."""
        quorum = await self._latest()
        if quorum.committed_voters:
            raise OutcomeUnknownError("a change of the voters has not committed yet")
        return quorum

    async def _made_sure(
        self, change: Callable[[int], Awaitable[None]], is_done: Callable[[QuorumDescription], bool]
    ) -> str | None:
        """Make the change, for which there are so many milliseconds.  If the outcome is unknown, ask the quorum until
        it is settled.  Raises the change's own error, unless someone else has made the change; returns that.

        A leader may give up early: one of Kafka's does so if it cannot connect to the new voter at once.  Then the
        change is asked for again, which is safe, as it names the replica and not just its id.
        """
        deadline = trio.current_time() + self.timeout_ms / 1000
        was_repeated = False
        while True:
            left_ms = round((deadline - trio.current_time()) * 1000)
            try:
                by_others = await self._made_or_told(partial(change, max(1, left_ms)), is_done)
                return None if was_repeated else by_others  # An earlier request may have made it after all.
            except _NotDoneError as error:
                if error.is_final or trio.current_time() + GIVEN_UP_S > deadline:
                    raise OutcomeUnknownError(str(error)) from error
            was_repeated = True
            await trio.sleep(GIVEN_UP_S)

    async def _made_or_told(
        self, change: Callable[[], Awaitable[None]], is_done: Callable[[QuorumDescription], bool]
    ) -> str | None:
        """Like `_made_sure`, once.  Raises _NotDoneError if the quorum is settled without the change."""
        try:
            await change()
            return None
        except (OutcomeUnknownError, VoterChangeError) as error:
            told = error.error if isinstance(error, VoterChangeError) else None
            if told is not None and told not in (*_MAY_HAVE_HAPPENED, *DONE_BY_OTHERS):
                raise
            try:
                quorum = await self._latest()
            except NetworkError as unanswered:
                raise OutcomeUnknownError(f"{error}; could not find out whether it was done: {unanswered}") from error
            if quorum.committed_voters:
                raise OutcomeUnknownError(f"{error}; a change has not committed yet") from error
            if told in DONE_BY_OTHERS:
                if not is_done(quorum):
                    raise
                return str(error)
            if not is_done(quorum):
                raise _NotDoneError(f"{error}; it has not been done so far", told is None) from error
            return None

    async def _latest(self) -> QuorumDescription:
        """The quorum once all its voter changes have committed, or after the time limit for finding a leader."""
        deadline = trio.current_time() + self.find_leader_ms / 1000
        while True:
            quorum = await self.describe()
            is_settled = not quorum.committed_voters and quorum.high_watermark >= 0
            if is_settled or trio.current_time() > deadline:
                return quorum
            await trio.sleep(LOOK_AGAIN_S)
