"""The memory budget of requests and responses in flight (`queued.max.request.bytes`)."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs
import trio

from kraft_trio.config.checks import CONNECTION_SHARE, RESERVED_SHARE

_ANSWER_SHARE: Final = 8
MIN_ANSWER_BYTES: Final = 64 * 1024


@attrs.frozen(eq=False)
class _Waiter:
    size: int
    task: trio.lowlevel.Task


class MemoryBudget:
    """Counts bytes; owned by NetworkServer, shared by its connections and the leader.

    A quarter is reserved for replicas: clients together never take it, so they cannot keep the quorum from
    replicating.  No connection may hold more than a quarter, or what `per_connection` says.
    """

    def __init__(self, total_bytes: int, per_connection: int = 0) -> None:
        self.taken = 0
        self.waits = 0
        """How often `take` had to wait."""
        self.per_connection = per_connection or total_bytes // CONNECTION_SHARE
        self._total = total_bytes
        self._for_clients = total_bytes - total_bytes // RESERVED_SHARE
        self._clients: deque[_Waiter] = deque()
        self._replicas: deque[_Waiter] = deque()

    def take_now(self, size: int, *, for_replica: bool) -> bool:
        """Take `size` bytes if there is room and nothing waits.  Returns whether it did."""
        queue, limit = (self._replicas, self._total) if for_replica else (self._clients, self._for_clients)
        if queue or self.taken + size > limit:
            return False
        self.taken += size
        return True

    async def take(self, size: int, *, for_replica: bool) -> None:
        """Wait for room for `size` bytes and take them, first come, first served.

        `size` must be at most `per_connection`.  A cancelled wait takes nothing.
        """
        assert size <= self.per_connection, f"{size} bytes wanted, a connection may have {self.per_connection}"
        if self.take_now(size, for_replica=for_replica):
            return
        queue = self._replicas if for_replica else self._clients
        self.waits += 1
        waiter = _Waiter(size, trio.lowlevel.current_task())
        queue.append(waiter)

        def leave(_raise_cancel: object) -> trio.lowlevel.Abort:
            queue.remove(waiter)
            self._admit()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def take_beyond(self, size: int) -> None:
        """Take `size` bytes that are in memory already, even if the budget has no room."""
        self.taken += size

    def give_back(self, size: int) -> None:
        self.taken -= size
        assert self.taken >= 0, "more was given back than was taken"
        if self._clients or self._replicas:
            self._admit()

    def answer_room(self, *, for_replica: bool) -> int:
        """How many bytes may be read from the log for one response now.

        It is a share of what is left, so that clients that do not read leave room for those that do.
        """
        left = (self._total if for_replica else self._for_clients) - self.taken
        return max(left // _ANSWER_SHARE, min(left, MIN_ANSWER_BYTES), 0)

    def _admit(self) -> None:
        for queue, limit in ((self._replicas, self._total), (self._clients, self._for_clients)):
            while queue and self.taken + queue[0].size <= limit:
                waiter = queue.popleft()
                self.taken += waiter.size
                trio.lowlevel.reschedule(waiter.task)
