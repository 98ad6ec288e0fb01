"""Hands the leadership of one epoch over to a voter of the administrator's or the application's choice."""

from __future__ import annotations

import math

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.membership.voter_change import ChangeRefusedError, VoterChange, VoterChangeSteps
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.messages import LeadershipLost
from kraft_trio.protocol.refusals import Refusal
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.wire.error_codes import ErrorCode


class LeadershipTransfer:
    """The transfers of one epoch.  They take turns with the voter changes, so none is uncommitted meanwhile."""

    def __init__(self, context: EpochContext, leader: LeaderReplication, steps: VoterChangeSteps) -> None:
        self._context = context
        self._leader = leader
        self._steps = steps

    async def to(self, change: VoterChange, voter_id: int) -> None:
        """Resign in favour of that voter, in the change's turn.

        1. Wait until the voter has caught up, while appends continue.
        2. Hold appends, until the voter has all of the log and the log is committed.  The voter then wins against every
           other log, and no append is left without an answer.  If that takes an election timeout, start again.
        3. Answer, and resign with the voter as the preferred successor.  It campaigns at once (KIP-595
           "EndQuorumEpoch").
        """
        async with self._steps.in_turn(change):
            voter = self._voter(voter_id)
            if voter.id != self._context.key.id:
                await self._hold_until_alike(change, voter)
            change.answer(ErrorCode.none)
            if voter.id != self._context.key.id:
                reason = f"transferred to node {voter_id}"
                await self._context.tell_election(LeadershipLost(self._context.stamp, reason, voter.key))

    def _voter(self, voter_id: int) -> Voter:
        voter = self._steps.voters.get(voter_id)
        if voter is None:
            ids = ", ".join(map(str, self._steps.voters.ids))
            raise ChangeRefusedError(
                Refused(Refusal.VOTER_NOT_FOUND, f"node {voter_id} is no voter; the voters are {ids}")
            )
        return voter

    async def _hold_until_alike(self, change: VoterChange, voter: Voter) -> None:
        """Return with appends held, once the voter has the whole log and all of it is committed."""
        deadline, hold_s = change.deadline, self._context.config.election_timeout_ms / 1000
        while True:
            await self._until_caught_up(change, voter)
            # The deadline must not interrupt a hold, and the end of the epoch must not release it.
            change.deadline_scope.deadline = math.inf
            self._leader.hold_appends()
            with trio.move_on_at(min(deadline, trio.current_time() + hold_s)):
                await self._until_alike(voter)
                return
            self._leader.release_appends()
            change.deadline_scope.deadline = deadline

    async def _until_caught_up(self, change: VoterChange, voter: Voter) -> None:
        change.waits_for = f"node {voter.id} to catch up with the leader"
        await trio.lowlevel.checkpoint()
        while (progress := self._leader.progress.of_voter(voter)) is None or progress.last_caught_up_s < self._lately():
            await self._leader.progressed.park()

    def _lately(self) -> float:
        return trio.current_time() - self._context.config.fetch_timeout_ms / 1000

    async def _until_alike(self, voter: Voter) -> None:
        log = self._context.log
        while (progress := self._leader.progress.of_voter(voter)) is None or progress.end_offset < log.end_offset:
            await self._leader.progressed.park()
        while log.high_watermark != log.end_offset:
            await log.changed.park()
