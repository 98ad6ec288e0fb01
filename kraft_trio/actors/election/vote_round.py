"""One round of votes or pre-votes: asks the other voters, counts, and tells Election the result."""

from __future__ import annotations

import math

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.peers.voter_addresses import AnotherDiskError
from kraft_trio.errors import ApiNotServedError, NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.messages import VoteRoundEnded
from kraft_trio.protocol.roles import Candidate, Prospective
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.protocol.votes import VoteTally
from kraft_trio.protocol.waits import vote_wait_ms
from kraft_trio.wire.apis.vote import VOTE, VoteRequest, VoteResponse
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

PRE_VOTE_RETRY_S = 0.05


class VoteRound:
    """Asks for the votes or pre-votes of one epoch, once per Prospective or Candidate role.

    The round ends when it is won or lost, or when the role's timer ends the role.  It asks for a refused pre-vote
    again, because the voter may lose its leader a moment later.  It does not ask for a refused vote again.  A candidate
    has lost for now once some voters have refused and the rest cannot be reached.

    A pre-vote is not lost after the leader has resigned.  A voter refuses until it hears of that, which may be later,
    and no leader is left that the loser could follow.
    """

    def __init__(
        self, context: EpochContext, role: Prospective | Candidate, *, log_end: OffsetAndEpoch, voters: VoterSet
    ) -> None:
        self._context = context
        self._pre_vote = isinstance(role, Prospective)
        self._can_be_lost = not (isinstance(role, Prospective) and role.leader_resigned)
        self._log_end = log_end
        self._voters = voters
        # A candidate that the newest set does not name does not count its own vote.
        tally = VoteTally(voters)
        self._tally = tally.granted_by(context.key) if voters.is_voter(context.key) else tally
        self._unreachable: set[int] = set()
        self._ended = False
        self._wait = trio.CancelScope(deadline=-math.inf)

    def ask_at(self, time_s: float) -> None:
        """Let the round begin at that time, on Trio's clock.  Later calls change it until then."""
        self._wait.deadline = time_s

    async def run(self) -> None:
        if self._wait.deadline > trio.current_time():
            with self._wait:
                await trio.sleep_forever()
        await self._end_if_decided()
        if self._ended:
            return
        async with trio.open_nursery() as nursery:
            for voter in self._voters:
                if voter.id != self._context.key.id:
                    nursery.start_soon(self._ask, voter)

    async def _ask(self, voter: Voter) -> None:
        config = self._context.config
        wait_ms = vote_wait_ms(config.election_timeout_ms, config.request_timeout_ms)
        while self._context.addresses.endpoint_of(voter) is not None and not self._ended:
            try:
                response = await self._context.addresses.ask(voter, VOTE, self._request(voter), wait_ms)
            except (NetworkError, ApiNotServedError) as error:
                if isinstance(error, AnotherDiskError):
                    self._context.other_disks.answered(voter.key, is_other=True, voters=self._voters)
                log.debug("no vote", voter_id=voter.id, epoch=self._context.epoch, reason=str(error))
                self._unreachable.add(voter.id)
                await self._end_if_decided()
                await trio.sleep(self._context.retry_backoff_s())
                continue
            except UnsupportedVersionError:
                await self._end(VoteRoundEnded(self._context.stamp, won=False, skip_pre_vote=self._pre_vote))
                return
            if response.error == ErrorCode.unsupported_version and self._pre_vote:
                await self._end(VoteRoundEnded(self._context.stamp, won=False, skip_pre_vote=True))
                return
            await self._count(voter, response)
            if not self._may_ask_again(voter):
                return
            await trio.sleep(self._context.random.uniform(1.0, 2.0) * PRE_VOTE_RETRY_S)

    def _may_ask_again(self, voter: Voter) -> bool:
        return self._pre_vote and voter.key not in self._tally.granted

    def _request(self, voter: Voter) -> VoteRequest:
        return VoteRequest(
            cluster_id=self._context.cluster_id,
            voter_id=voter.id,
            topic=self._context.config.topic_name,
            partition=0,
            replica=self._context.key,
            replica_epoch=self._context.epoch,
            voter_directory_id=voter.key.directory_id,
            last_offset=self._log_end.offset,
            last_offset_epoch=self._log_end.epoch,
            pre_vote=self._pre_vote,
        )

    async def _count(self, voter: Voter, response: VoteResponse) -> None:
        log.info(
            "vote answered",
            voter_id=voter.id,
            epoch=self._context.epoch,
            pre_vote=self._pre_vote,
            granted=response.vote_granted,
            error=response.error.name if response.error != ErrorCode.none else response.partition_error.name,
        )
        self._context.other_disks.answered(
            voter.key,
            is_other=ErrorCode.invalid_voter_key in (response.error, response.partition_error),
            voters=self._voters,
        )
        if response.error != ErrorCode.none:
            self._tally = self._tally.rejected_by(voter.key)
        elif response.leader_epoch > self._context.epoch or response.leader_id >= 0:
            await self._context.tell_of_leader(response.leader_epoch, response.leader_id, response.leader_endpoint)
        if response.error == ErrorCode.none:
            granted = response.vote_granted and response.partition_error == ErrorCode.none
            self._tally = self._tally.granted_by(voter.key) if granted else self._tally.rejected_by(voter.key)
        await self._end_if_decided()

    async def _end_if_decided(self) -> None:
        tally = self._tally
        if tally.is_won or (tally.is_lost and self._can_be_lost) or self._is_stalled():
            await self._end(VoteRoundEnded(self._context.stamp, won=tally.is_won, granting=tally.granted))

    def _is_stalled(self) -> bool:
        """Whether a candidate was refused, and no voter is left that may answer soon: a split vote."""
        unheard = {key.id for key in self._tally.unanswered} - self._unreachable
        return not self._pre_vote and bool(self._tally.rejected) and not unheard

    async def _end(self, ended: VoteRoundEnded) -> None:
        if not self._ended:
            self._ended = True
            await self._context.tell_election(ended)
