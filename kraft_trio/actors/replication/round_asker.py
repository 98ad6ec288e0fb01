"""Asks voters that return no round whether the leader still leads: Kafka's, or one whose response was lost."""

from __future__ import annotations

from collections.abc import Callable

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.peers.voter_addresses import NAMING_THEIR_VOTER
from kraft_trio.actors.replication.epoch_announcer import announcement
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.read_barrier import ReadRounds
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.wire.apis.begin_quorum_epoch import BEGIN_QUORUM_EPOCH
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)


class RoundAsker:
    """Confirms rounds by BeginQuorumEpoch, whose response the voter sends after it was asked.

    `confirmed` is called after each round that a voter has confirmed.
    """

    def __init__(self, context: EpochContext, rounds: ReadRounds, confirmed: Callable[[], None]) -> None:
        self._context = context
        self._rounds = rounds
        self._confirmed = confirmed
        self.mute: set[ReplicaKey] = set()
        """The voters that have not returned a round that they were given."""
        self._wanted = trio.Event()
        self._under_way: set[ReplicaKey] = set()

    def is_mute(self, voter: ReplicaKey) -> None:
        self.mute.add(voter)
        self.ask()

    def ask(self) -> None:
        """Ask all mute voters for the newest round."""
        self._wanted.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._wanted.wait()
                self._wanted = trio.Event()
                voters = self._context.log.voters.voters
                self.mute = {key for key in self.mute if voters.is_voter(key)}
                for key in sorted(self.mute - self._under_way):
                    voter = voters.get(key.id)
                    assert voter is not None, "looked at in the same step"
                    self._under_way.add(key)
                    nursery.start_soon(self._ask, key, voter)

    async def _ask(self, key: ReplicaKey, voter: Voter) -> None:
        """Ask until the voter has confirmed the newest round, or does not answer."""
        try:
            while self._rounds.newest > self._rounds.confirmed.get(key, 0):
                round = self._rounds.give(key)
                if not await self._follows(voter):
                    return
                if self._rounds.confirm(key, round):
                    self._confirmed()
        finally:
            self._under_way.discard(key)

    async def _follows(self, voter: Voter) -> bool:
        """Whether the voter follows this leader now.  Version 0 does not say which disk answers."""
        is_static = voter.key.directory_id == NO_DIRECTORY_ID
        api = BEGIN_QUORUM_EPOCH if is_static else NAMING_THEIR_VOTER[BEGIN_QUORUM_EPOCH.key]
        request = announcement(self._context, voter.key)
        try:
            response = await self._context.addresses.ask(voter, api, request, self._context.config.request_timeout_ms)
        except (NetworkError, UnsupportedVersionError) as error:
            log.debug("round not confirmed", voter_id=voter.id, epoch=self._context.epoch, reason=str(error))
            return False
        errors = (response.error, response.partition_error)
        return errors == (ErrorCode.none, ErrorCode.none) and (response.leader_id, response.leader_epoch) == (
            self._context.key.id,
            self._context.epoch,
        )
