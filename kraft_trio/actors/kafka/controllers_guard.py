"""Keeps a node that is no witness from being a voter among Apache Kafka's controllers."""

from __future__ import annotations

import trio

from kraft_trio.actors.context.epoch_context import NodeContext
from kraft_trio.errors import ConfigError
from kraft_trio.logs import get_logger

log = get_logger(__name__)


class ControllersGuard:
    """Ends a voter as soon as it has met a controller among the other voters.

    It would lead one day, and then no controller is active.  It meets the controllers before it can win their votes.
    An observer only says once that it cannot become a voter.
    """

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._has_warned = False

    async def run(self) -> None:
        """Look whenever there is news, until cancelled.  Raises ConfigError."""
        async with trio.open_nursery() as nursery:
            for news in (self._context.controllers.changed, self._context.log.voters_changed):
                nursery.start_soon(self._look_at, news)

    async def _look_at(self, news: trio.lowlevel.ParkingLot) -> None:
        while True:
            self.check()
            await news.park()

    def check(self) -> None:
        """Raises ConfigError if this node is a voter among controllers."""
        found = self._context.kafkas_controllers()
        if not found:
            return
        named = ", ".join(map(str, found))
        if self._context.log.voters.voters.is_voter(self._context.key):
            raise ConfigError(
                f"kraft.witness=false: node {self._context.key.id} is a voter among controllers of Apache Kafka (nodes "
                f"{named}), none of which is active while it leads; expected kraft.witness=true"
            )
        if "controller" in self._context.config.process_roles and not self._has_warned:
            self._has_warned = True
            log.warning(
                "cannot become a voter among controllers of Apache Kafka without kraft.witness=true", nodes=named
            )
