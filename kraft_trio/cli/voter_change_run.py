"""Making one change of the voters: looked at first, asked for, and made sure of where the answer is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from kraft_trio.cli.output import echo_line
from kraft_trio.cli.quorum_options import described
from kraft_trio.cli.voter_plan import VoterPlan, plan_add, plan_remove
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.connecting import NOT_LEADING
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.client.voter_change import VoterChangeError
from kraft_trio.errors import KraftError, NetworkError, OutcomeUnknownError
from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.wire.error_codes import ErrorCode

LOOK_AGAIN_S: Final = 0.2

_MAY_HAVE_HAPPENED: Final = (ErrorCode.request_timed_out, *NOT_LEADING)


def tell(note: str) -> None:
    """Say what is going on, or what will be, beside the command's output."""
    echo_line(f"kraft: note: {note}", err=True)


class ChangeRefused(KraftError):
    """The change was not asked for, as it would do harm or could not be made."""


@attrs.frozen
class ChangeRun:
    """What the changes of one command have in common; times in milliseconds."""

    client: AdminClient
    find_leader_ms: int
    timeout_ms: int
    patience_ms: int
    """Who has not kept up for that long is not counted on."""
    force: bool = False

    async def describe(self) -> QuorumDescription:
        """Raises NetworkError where there is no leader, what each node says having been printed."""
        return await described(self.client, self.find_leader_ms)

    async def add(self, key: ReplicaKey, listeners: Endpoints, cluster_id: str | None) -> None:
        """Make the replica a voter.  Raises ChangeRefused, and what AdminClient raises."""
        await self.checked(lambda quorum: plan_add(quorum, key, self.patience_ms, listeners, cluster_id))
        await self._made_sure(
            lambda: self.client.add_metadata_voter(key, listeners, cluster_id=cluster_id, timeout_ms=self.timeout_ms),
            lambda quorum: quorum.voter(key) is not None,
        )

    async def remove(self, key: ReplicaKey, cluster_id: str | None) -> None:
        """Make exactly that replica no voter any more.  Raises ChangeRefused, and what AdminClient raises."""
        await self.checked(lambda quorum: plan_remove(quorum, key, self.patience_ms))
        await self._made_sure(
            lambda: self.client.remove_metadata_voter(key, cluster_id=cluster_id, timeout_ms=self.timeout_ms),
            lambda quorum: quorum.voter(key) is None,
        )

    async def checked(self, make_plan: Callable[[QuorumDescription], VoterPlan]) -> VoterPlan:
        """The plan as things are now, its notes told.  Raises ChangeRefused for objections, which `force` ignores.

        Who seems not to keep up is given time to: after an election nobody has fetched from the new leader yet.
        """
        plan = await self.looked_at(make_plan)
        for objection in plan.objections if self.force else ():
            echo_line(f"kraft: warning: {objection}", err=True)
        if plan.objections and not self.force:
            # Anything else the leader would refuse too.
            hint = " (--force asks the leader nevertheless)" if plan.may_pass else ""
            raise ChangeRefused(f"refused: {'; '.join(plan.objections)}{hint}")
        for note in plan.notes:
            tell(note)
        return plan

    async def looked_at(self, make_plan: Callable[[QuorumDescription], VoterPlan]) -> VoterPlan:
        """The plan as things are now, objections and all."""
        deadline = trio.current_time() + self.patience_ms / 1000
        while True:
            plan = make_plan(await self.describe())
            if not plan.may_pass or self.force or trio.current_time() > deadline:
                return plan
            await trio.sleep(LOOK_AGAIN_S)

    async def _made_sure(
        self, change: Callable[[], Awaitable[None]], is_done: Callable[[QuorumDescription], bool]
    ) -> None:
        """Make the change; where its outcome is open, ask the quorum, until that is settled.  Raises what it raised."""
        try:
            await change()
        except (OutcomeUnknownError, VoterChangeError) as error:
            if isinstance(error, VoterChangeError) and error.error not in _MAY_HAVE_HAPPENED:
                raise
            try:
                quorum = await self._settled()
            except NetworkError as unanswered:
                raise OutcomeUnknownError(f"{error}; whether it was done could not be learned: {unanswered}") from error
            if quorum.committed_voters:
                raise OutcomeUnknownError(f"{error}; a change has not committed yet") from error
            if not is_done(quorum):
                raise OutcomeUnknownError(f"{error}; it has not been done as of now") from error

    async def _settled(self) -> QuorumDescription:
        """The quorum once no change of its voters is uncommitted, or after the time to find a leader."""
        deadline = trio.current_time() + self.find_leader_ms / 1000
        while True:
            quorum = await self.describe()
            is_settled = not quorum.committed_voters and quorum.high_watermark >= 0
            if is_settled or trio.current_time() > deadline:
                return quorum
            await trio.sleep(LOOK_AGAIN_S)
