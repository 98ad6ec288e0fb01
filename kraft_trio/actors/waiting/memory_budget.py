"""The memory budget of requests and responses in flight (`queued.max.request.bytes`)."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.actors.waiting.address_turns import AddressQueue
from kraft_trio.config.checks import CONNECTION_SHARE, RESERVED_SHARE

_ANSWER_SHARE: Final = 8
_VERY_LARGE_SHARE: Final = 8
"""A request above this part of a connection's share is very large: with the defaults, above 2 MiB.  A few connections
cannot hold up those that produce batches of the usual size."""
MIN_ANSWER_BYTES: Final = 64 * 1024


@attrs.frozen(eq=False)
class _Waiter:
    number: int
    """The order in which they came."""
    size: int


class MemoryBudget:
    """Counts bytes; owned by NetworkServer, shared by its connections and the leader.

    A quarter is reserved for replicas: clients together never take it, so they cannot keep the quorum from
    replicating.  Very large requests of clients that are still being received take at most half of the rest, so that
    clients which send them slowly leave room for others.  No connection may hold more than a quarter, or what
    `per_connection` says.
    """

    def __init__(self, total_bytes: int, per_connection: int = 0) -> None:
        self.taken = 0
        self.waits = 0
        """How often a request had to wait for memory."""
        self.per_connection = per_connection or total_bytes // CONNECTION_SHARE
        self._total = total_bytes
        self._for_clients = total_bytes - total_bytes // RESERVED_SHARE
        self._for_arrivals = max(self._for_clients // 2, self.per_connection)
        self._very_large = self.per_connection // _VERY_LARGE_SHARE
        self._arriving = 0
        """The part of `taken` for very large requests of clients that are still being received."""
        self._arrivals: AddressQueue[_Waiter] = AddressQueue()
        self._clients: AddressQueue[_Waiter] = AddressQueue()
        self._replicas: AddressQueue[_Waiter] = AddressQueue()

    def take_now(self, size: int, *, for_replica: bool) -> bool:
        """Take `size` bytes if there is room and nothing waits.  Returns whether it did."""
        queue, limit = (self._replicas, self._total) if for_replica else (self._clients, self._for_clients)
        if queue or self.taken + size > limit or (not for_replica and self._arrival_needs_room()):
            return False
        self.taken += size
        return True

    async def take(self, size: int, *, for_replica: bool, address: str = "") -> None:
        """Wait for room for `size` bytes and take them: first come, first served, but one of each address in turn.

        `size` must be at most `per_connection`.  A cancelled wait takes nothing.
        """
        if not self.take_now(size, for_replica=for_replica):
            await self._wait(self._replicas if for_replica else self._clients, size, address)

    async def take_for_arrival(self, size: int, address: str = "") -> int:
        """Like `take`, for the request of a client that will be received now.

        Returns what to pass to `arrived` once it has been received, or never will be: 0 unless it is very large.
        """
        if size <= self._very_large:
            await self.take(size, for_replica=False, address=address)
            return 0
        if self._arrivals or self._clients or not self._has_room_for_arrival(size):
            await self._wait(self._arrivals, size, address)
        else:
            self.taken += size
            self._arriving += size
        return size

    def arrived(self, size: int) -> None:
        """The request still holds its memory."""
        self._arriving -= size
        if self._arrivals:
            self._admit()

    def _has_room_for_arrival(self, size: int) -> bool:
        return self.taken + size <= self._for_clients and self._arriving + size <= self._for_arrivals

    def _arrival_needs_room(self) -> bool:
        """Whether one waits for what other clients hold, and not only for other arrivals.  Then they wait behind it."""
        return bool(self._arrivals) and self._arriving + self._arrivals.first.size <= self._for_arrivals

    async def _wait(self, queue: AddressQueue[_Waiter], size: int, address: str) -> None:
        assert size <= self.per_connection, f"{size} bytes wanted, a connection may have {self.per_connection}"
        self.waits += 1
        await queue.wait(address, _Waiter(self.waits, size), self._admit)

    def take_beyond(self, size: int) -> None:
        """Take `size` bytes that are in memory already, even if the budget has no room."""
        self.taken += size

    def give_back(self, size: int) -> None:
        self.taken -= size
        assert self.taken >= 0, "more was given back than was taken"
        if self._clients or self._replicas or self._arrivals:
            self._admit()

    def answer_room(self, *, for_replica: bool) -> int:
        """How many bytes may be read from the log for one response now.

        It is a share of what is left, so that clients that do not read leave room for those that do, and no more than
        a connection may hold.
        """
        left = (self._total if for_replica else self._for_clients) - self.taken
        return max(min(left // _ANSWER_SHARE, self.per_connection), min(left, MIN_ANSWER_BYTES), 0)

    def _admit(self) -> None:
        while self._replicas and self.taken + self._replicas.first.size <= self._total:
            self._let(self._replicas)
        while (queue := self._next_of_clients()) and self.taken + queue.first.size <= self._for_clients:
            if queue is self._arrivals:
                self._arriving += queue.first.size
            self._let(queue)

    def _next_of_clients(self) -> AddressQueue[_Waiter] | None:
        """The queue whose first one came first.  An arrival that waits for other arrivals lets others pass."""
        queues = [self._clients] if self._clients else []
        if self._arrival_needs_room():
            queues.append(self._arrivals)
        return min(queues, key=lambda queue: queue.first.number, default=None)

    def _let(self, queue: AddressQueue[_Waiter]) -> None:
        self.taken += queue.wake_first().size
