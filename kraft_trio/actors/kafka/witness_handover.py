"""Ends the leadership of a witness as soon as another voter can lead."""

from __future__ import annotations

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.logs import get_logger
from kraft_trio.messages import LeadershipLost
from kraft_trio.protocol.voter_set import Voter

log = get_logger(__name__)


class WitnessHandover:
    """Runs for one epoch that a witness leads.

    A voter that has the whole log, all of it committed, wins against every other log.  The witness appends nothing of
    clients, so any voter that fetches gets there.
    """

    def __init__(self, context: EpochContext, leader: LeaderReplication) -> None:
        self._context = context
        self._leader = leader

    async def run(self) -> None:
        """Wait until another voter has caught up; then resign in its favour (KIP-595 "EndQuorumEpoch")."""
        log.warning("witness leads until another voter has caught up", epoch=self._context.epoch)
        await trio.lowlevel.checkpoint()
        while (successor := self._successor()) is None:
            await (self._leader.progressed if self._is_committed else self._context.log.changed).park()
        reason = f"a witness hands over to node {successor.id}"
        await self._context.tell_election(LeadershipLost(self._context.stamp, reason, successor.key))

    def _successor(self) -> Voter | None:
        """The caught-up voter that has fetched last."""
        if not self._is_committed:
            return None
        progress, end_offset = self._leader.progress, self._context.log.end_offset
        caught_up = [
            voter
            for voter in self._context.log.voters.voters
            if voter.id != self._context.key.id
            and (replica := progress.of_voter(voter)) is not None
            and replica.end_offset >= end_offset
        ]
        return max(caught_up, key=progress.last_fetch_s, default=None)

    @property
    def _is_committed(self) -> bool:
        return self._context.log.high_watermark == self._context.log.end_offset
