"""Nodes without a leader tell each other where the voters listen (KIP-642 "Quorum Bootstrapping").

Voters whose endpoints in the log are outdated cannot reach each other, and no leader can correct the log.  So a node
without a leader asks the bootstrap servers and all nodes that it knows.  Each request and each response has everything
that its sender knows, so that what one node learns spreads.  Once there is a leader, UpdateRaftVoter puts the new
endpoints into the log, and gossip ends.  docs/explanation/protocol.md#gossip says why no lie can cost safety.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final

import trio

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.actors.replication.replica_fetch import voters_to_ask
from kraft_trio.actors.waiting.published import Published
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.messages import QuorumView
from kraft_trio.protocol.gossip import (
    MAX_ADVERTISEMENTS,
    MAX_BOOT,
    MAX_ENDPOINTS,
    Advertisement,
    Allowance,
    boot_to_overtake,
)
from kraft_trio.protocol.roles import Follower, Leader
from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.storage.directory.boot_counter import BootCounter
from kraft_trio.wire.apis.discover_voters import DISCOVER_VOTERS, DiscoverVotersRequest, DiscoverVotersResponse
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

MAX_REQUESTS: Final = 256
"""How many requests a node answers in one fetch timeout."""


class VoterGossip:
    """Asks while no leader is known, and answers at all times.

    The node's VoterAddresses accepts advertisements of other voters or refuses them.
    """

    def __init__(self, context: NodeContext, view: Published[QuorumView], boots: BootCounter) -> None:
        self._context = context
        self._view = view
        self._boots = boots
        self._has_booted = False
        """Whether the counter counts this process."""
        self._counting = trio.Lock()
        self._not_before_s = -math.inf
        """When the counter may be written again after a failure, on Trio's clock."""
        # Not the node's own source, so that gossip does not change what else the node draws.
        self._random = random.Random(f"gossip of {context.key}")
        self._period_s = context.config.fetch_timeout_ms / 1000
        self._answers = Allowance(MAX_REQUESTS, self._period_s)
        self._overtakings = Allowance(1, self._period_s)

    async def run(self) -> None:
        """Ask after each fetch timeout without a leader, until cancelled."""
        while True:
            await self._view.wait_for(lambda view: not _has_leader(view))
            with trio.move_on_after(self._period_s * self._random.uniform(1.0, 1.5)):
                await self._view.wait_for(_has_leader)
                continue
            with trio.move_on_after(self._period_s):
                await self._ask_everybody()

    async def answer(self, request: DiscoverVotersRequest) -> DiscoverVotersResponse:
        """Accept what is new in the request, and return what this node knows."""
        if request.cluster_id != self._context.cluster_id:
            return DiscoverVotersResponse(ErrorCode.inconsistent_cluster_id)
        if len(request.advertisements) > MAX_ADVERTISEMENTS:
            return DiscoverVotersResponse(ErrorCode.invalid_request)
        if not self._answers.take(trio.current_time()):
            return DiscoverVotersResponse(ErrorCode.throttling_quota_exceeded)
        await self._hear(request.advertisements)
        return DiscoverVotersResponse(advertisements=await self._known())

    async def _ask_everybody(self) -> None:
        """Ask the bootstrap servers, the voters at their endpoints in the log, and those that are advertised."""
        config = self._context.config
        advertised = (
            known.endpoints.get(config.controller_listener_name) for known in self._context.addresses.whereabouts
        )
        endpoints = (*voters_to_ask(config, self._context.log.voters, self._context.key), *advertised)
        request = DiscoverVotersRequest(self._context.cluster_id, await self._known())

        async def ask(endpoint: Endpoint) -> None:
            await self._ask(endpoint, request)

        await self._context.bootstrap.ask_all(ask, also=(endpoint for endpoint in endpoints if endpoint is not None))

    async def _ask(self, endpoint: Endpoint, request: DiscoverVotersRequest) -> None:
        config = self._context.config
        wait_ms = min(config.request_timeout_ms, config.fetch_timeout_ms)
        try:
            response = await self._context.client.request_apart(endpoint, DISCOVER_VOTERS, request, wait_ms)
        except (NetworkError, UnsupportedVersionError) as error:
            log.debug("no gossip", endpoint=str(endpoint), reason=str(error))
            return
        if response.error == ErrorCode.none:
            await self._hear(response.advertisements[:MAX_ADVERTISEMENTS])

    async def _hear(self, heard: Sequence[Advertisement]) -> None:
        own_id = self._context.key.id
        self._context.addresses.hear((it for it in heard if it.key.id != own_id), self._context.log.voters.voters)
        await self._overtake([it for it in heard if it.key.id == own_id])

    async def _overtake(self, heard: list[Advertisement]) -> None:
        """Raise this node's boot number above wrong advertisements of itself."""
        own = await self._own()
        if own is None:
            return
        voters = self._context.log.voters.voters
        credible = [it for it in heard if voters.is_voter(it.key) and it.defect() is None]
        boot = max((boot for it in credible if (boot := boot_to_overtake(own, it)) is not None), default=0)
        if boot > self._boots.value and self._overtakings.take(trio.current_time()):
            log.warning("advertised elsewhere by somebody else", replica=str(own.key), boot=boot)
            await self._count_to(boot)

    async def _known(self) -> tuple[Advertisement, ...]:
        """What this node tells: its own advertisement, and those it has accepted."""
        own = await self._own()
        others = self._context.addresses.whereabouts.of_voters(self._context.log.voters.voters)
        return (*(() if own is None else (own,)), *tuple(others)[: MAX_ADVERTISEMENTS - 1])

    async def _own(self) -> Advertisement | None:
        """This node's own advertisement.  None if it cannot count its boot.

        A replica that is no voter by its own log may be one by another log, which needs its vote.
        """
        key = self._context.key
        if not self._has_booted and not await self._count_to(min(self._boots.value + 1, MAX_BOOT)):
            return None
        endpoints = Endpoints(tuple(self._context.config.advertised_endpoints())[:MAX_ENDPOINTS])
        return Advertisement(key, self._boots.value, self._view.value.epoch, endpoints)

    async def _count_to(self, boot: int) -> bool:
        """Store a boot number before anybody hears of it.  Returns False if the disk does not take it.

        After a failure, the disk is spared for a fetch timeout, because anybody's request may need the number.
        """
        async with self._counting:
            if boot > self._boots.value:
                if trio.current_time() < self._not_before_s:
                    return False
                try:
                    await self._boots.raise_to(boot)
                except OSError as error:
                    log.warning("the boot counter cannot be written", reason=str(error))
                    self._not_before_s = trio.current_time() + self._period_s
                    return False
            self._has_booted = True
        return True


def _has_leader(view: QuorumView) -> bool:
    """Whether this node leads, or has reached the leader.  It may know a leader whose endpoint is outdated."""
    return isinstance(view.role, Leader) or (isinstance(view.role, Follower) and view.role.has_fetched)
