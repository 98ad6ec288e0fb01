"""Keeps a node that is no witness from being a voter among Apache Kafka's controllers."""

from __future__ import annotations

import trio

from kraft_trio.actors.epoch_context import NodeContext
from kraft_trio.errors import ConfigError


class ControllersGuard:
    """Ends a voter as soon as it has met a controller among the other voters.

    It would lead one day, and then no controller is active.  It meets the controllers before it can win their votes.
    """

    def __init__(self, context: NodeContext) -> None:
        self._context = context

    async def run(self) -> None:
        """Look whenever there is news, until cancelled.  Raises ConfigError."""
        async with trio.open_nursery() as nursery:
            for news in (self._context.controllers.found_another, self._context.log.voters_changed):
                nursery.start_soon(self._look_at, news)

    async def _look_at(self, news: trio.lowlevel.ParkingLot) -> None:
        while True:
            self.check()
            await news.park()

    def check(self) -> None:
        """Raises ConfigError if this node is a voter among controllers."""
        is_voter = self._context.log.voters.voters.is_voter(self._context.key)
        if is_voter and (found := self._context.kafkas_controllers()):
            named = ", ".join(map(str, found))
            raise ConfigError(
                f"kraft.witness=false: node {self._context.key.id} is a voter among controllers of Apache Kafka (nodes "
                f"{named}), none of which is active while it leads; expected kraft.witness=true"
            )
