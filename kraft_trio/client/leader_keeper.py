"""A connection to the leader that is kept while it serves."""

from __future__ import annotations

import random

import trio

from kraft_trio.client.leader_connection import LeaderConnection
from kraft_trio.client.leader_finder import LeaderFinder


class LeaderKeeper:
    """Finds the leader and keeps the connection to it, for one task at a time.  The owner calls `forget` at the end."""

    def __init__(self, finder: LeaderFinder, *, retry_backoff_ms: int, random_source: random.Random) -> None:
        self._finder = finder
        self._retry_backoff_ms = retry_backoff_ms
        self._random = random_source
        self._leader: LeaderConnection | None = None

    async def find(self) -> LeaderConnection:
        """The leader as last known, or as any node names it now.  Raises NetworkError, with what each node said."""
        if self._leader is None or not self._leader.connection.usable:
            self._leader = None
            self._leader = await self._finder.follow()
        return self._leader

    async def forget(self) -> None:
        """Close the connection, if there is one."""
        leader, self._leader = self._leader, None
        if leader is not None:
            await leader.aclose()

    async def prepare_another(self) -> None:
        """Close the connection, then wait for the backoff or up to twice as long: clients must not retry in step."""
        await self.forget()
        await trio.sleep(self._retry_backoff_ms * self._random.uniform(1.0, 2.0) / 1000)
