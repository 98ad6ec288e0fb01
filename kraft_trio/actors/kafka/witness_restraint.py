"""How long a witness leaves elections to the other voters."""

from __future__ import annotations

import trio

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.replication.follower_replication import FollowerReplication
from kraft_trio.logs import get_logger
from kraft_trio.messages import ElectionMessage, Stamp, TimedOut, VoteRoundEnded
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.witness import PATIENCE, WitnessStanding, doubts_leader
from kraft_trio.wire.apis.vote import VoteRequest

log = get_logger(__name__)


class WitnessRestraint:
    """The standing of one witness, on Trio's clock.  Election owns it.

    `heard_s` is when this node last heard from a leader, or None if never.
    """

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._timeout_s = context.config.election_timeout_ms / 1000
        self._standing = WitnessStanding()

    @property
    def patience_s(self) -> float:
        """How long the others have, if it is not known that they need this node."""
        return PATIENCE * self._timeout_s

    def doubts_leader(self, replication: object) -> bool:
        """Whether a voter's pre-vote makes this node give up its leader; `replication` is that of its role."""
        heard_s = replication.last_heard_s if isinstance(replication, FollowerReplication) else None
        fetch_timeout_s = self._context.config.fetch_timeout_ms / 1000
        return heard_s is not None and doubts_leader(trio.current_time() - heard_s, fetch_timeout_s)

    def is_needed_after(self, request: VoteRequest, heard_s: float | None) -> bool:
        """Note a request for a vote or pre-vote.  Returns whether a voter is known whose log is behind."""
        self._asked(request, heard_s)
        return self._campaigns_at_s(heard_s) is not None

    def _asked(self, request: VoteRequest, heard_s: float | None) -> None:
        if request.replica.id == self._context.key.id or not self._context.log.voters.voters.is_voter(request.replica):
            return
        theirs = OffsetAndEpoch(request.last_offset, request.last_offset_epoch)
        is_behind = not theirs.is_at_least_as_up_to_date_as(self._context.log.end)
        before = self._standing.after_leader(heard_s)
        self._standing = before.asked(is_behind=is_behind, now_s=trio.current_time())
        if is_behind and before.behind_since_s is None:
            log.info("voter is behind this witness", voter_id=request.replica.id, theirs=str(theirs))

    def note_round(self, message: ElectionMessage, stamp: Stamp, heard_s: float | None) -> None:
        """Note the result of this node's own pre-votes, if the message is one."""
        if not isinstance(message, VoteRoundEnded | TimedOut) or message.stamp != stamp:
            return
        standing = self._standing.after_leader(heard_s)
        if isinstance(message, TimedOut) or not (message.won or message.skip_pre_vote):
            standing = standing.found_no_majority()
        elif not self.may_lead(heard_s):
            standing = standing.spared_majority(trio.current_time())
        self._standing = standing

    def may_lead(self, heard_s: float | None) -> bool:
        """Whether a won pre-vote makes this node a candidate."""
        at_s = self._campaigns_at_s(heard_s)
        return at_s is not None and at_s <= trio.current_time()

    def asks_at_s(self, heard_s: float | None) -> float:
        """When this node asks for pre-votes, if it becomes or is Prospective now."""
        at_s = self._campaigns_at_s(heard_s)
        return trio.current_time() + self.patience_s if at_s is None else at_s

    def _campaigns_at_s(self, heard_s: float | None) -> float | None:
        if self._context.log.voters.voters.is_only_voter(self._context.key):
            return float("-inf")
        return self._standing.after_leader(heard_s).campaigns_at_s(self._timeout_s)
