"""The Fetch requests that wait at a leader, found by what they wait for: an event looks at those it concerns alone."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from kraft_trio.actors.removable_heap import RemovableHeap
from kraft_trio.messages import FetchReceived
from kraft_trio.protocol.types import ReplicaKey

MAX_PARKED_CONSUMERS: Final = 1000
MAX_PARKED_BY_ONE_ASKER: Final = 4
"""An ordinary consumer has one Fetch under way on a connection."""
MAX_PARKED_OBSERVERS: Final = 200


@attrs.define(eq=False)
class ParkedFetch:
    """A Fetch that waits until `deadline` (Trio's clock) at most."""

    message: FetchReceived
    deadline: float
    has_left: bool = False


class ParkedFetches:
    """Owned by LeaderFetches of one epoch.

    A Fetch leaves when it is taken out to be answered, or when its asker is gone.  Each event takes out those that it
    concerns, one at a time, so that its caller may stop in between.
    """

    def __init__(self) -> None:
        self._by_deadline: RemovableHeap[ParkedFetch] = RemovableHeap()
        self._voters: dict[ReplicaKey, ParkedFetch] = {}
        self._observers: dict[ReplicaKey, ParkedFetch] = {}
        """One of each replica, in the order of their coming, each at what was the log's end then."""
        self._replicas_by_high_watermark: RemovableHeap[ParkedFetch] = RemovableHeap()
        """By what they know; only those that can be told a newer one, and are not about to be."""
        self._consumers_by_need: RemovableHeap[ParkedFetch] = RemovableHeap()
        """By how many bytes must be committed for them, counted as `Log.bytes_before` counts."""
        self._consumers_by_offset: RemovableHeap[ParkedFetch] = RemovableHeap()
        self._of_asker: Counter[object] = Counter()

    def __len__(self) -> int:
        return len(self._by_deadline)

    @property
    def size(self) -> int:
        """How many entries there are in all indexes: what all of it costs in memory."""
        heaps = (
            self._by_deadline,
            self._replicas_by_high_watermark,
            self._consumers_by_need,
            self._consumers_by_offset,
        )
        return sum(heap.size for heap in heaps) + len(self._voters) + len(self._observers) + len(self._of_asker)

    @property
    def next_deadline(self) -> float:
        """Infinity where none waits."""
        return self._by_deadline.lowest_key

    @property
    def has_consumers(self) -> bool:
        return len(self._consumers_by_need) > 0

    # Coming

    def has_room_for_consumer(self, asker: object) -> bool:
        return len(self._consumers_by_offset) < MAX_PARKED_CONSUMERS and self._of_asker[asker] < MAX_PARKED_BY_ONE_ASKER

    def has_room_for_replica(self, *, is_voter: bool) -> bool:
        """There is always room for voters, of which there are few."""
        return is_voter or len(self._observers) < MAX_PARKED_OBSERVERS

    def park_consumer(self, message: FetchReceived, deadline: float, needed_bytes: int) -> None:
        parked = ParkedFetch(message, deadline)
        self._consumers_by_need.put(parked, needed_bytes)
        self._consumers_by_offset.put(parked, message.partition.fetch_offset)
        if message.asker is not None:
            self._of_asker[message.asker] += 1
        self._enter(parked)

    def park_replica(
        self, message: FetchReceived, replica: ReplicaKey, deadline: float, *, is_voter: bool, awaits_news: bool
    ) -> None:
        """Its earlier Fetch has been taken out; `awaits_news`: it can be told a high watermark newer than it knows."""
        parked = ParkedFetch(message, deadline)
        (self._voters if is_voter else self._observers)[replica] = parked
        if awaits_news:
            self._replicas_by_high_watermark.put(parked, message.partition.high_watermark)
        self._enter(parked)

    def _enter(self, parked: ParkedFetch) -> None:
        self._by_deadline.put(parked, parked.deadline)
        parked.message.reply.when_abandoned(lambda: self._leave(parked))

    # Going

    def take_replica(self, replica: ReplicaKey) -> FetchReceived | None:
        """The Fetch of that replica, as it has sent another one."""
        parked = self._voters.get(replica) or self._observers.get(replica)
        return self._taken(parked)

    def take_replica_below(self, end_offset: int) -> FetchReceived | None:
        """One that waited at an end of the log before this one, voters first."""
        for replicas in (self._voters, self._observers):
            # Whoever came first waited at the lowest end.
            first = next(iter(replicas.values()), None)
            if first is not None and first.message.partition.fetch_offset < end_offset:
                return self._taken(first)
        return None

    def take_satisfied_consumer(self, committed_bytes: int) -> FetchReceived | None:
        """One that has what it waits for once so many bytes are committed."""
        return self._taken(self._consumers_by_need.pop_up_to(committed_bytes))

    def take_consumer_below(self, offset: int) -> FetchReceived | None:
        return self._taken(self._consumers_by_offset.pop_up_to(offset - 1))

    def take_expired(self, now_s: float) -> FetchReceived | None:
        return self._taken(self._by_deadline.pop_up_to(now_s))

    def take_any(self) -> FetchReceived | None:
        return self._taken(self._by_deadline.pop_up_to(self.next_deadline))

    def hurry_uninformed(self, high_watermark: int, deadline: float) -> bool:
        """Let the replicas that can be told of that high watermark wait no longer than until then; whether any do."""
        has_hurried = False
        while (parked := self._replicas_by_high_watermark.pop_up_to(high_watermark - 1)) is not None:
            if parked.deadline > deadline:
                parked.deadline = deadline
                self._by_deadline.put(parked, deadline)
                has_hurried = True
        return has_hurried

    def _taken(self, parked: ParkedFetch | None) -> FetchReceived | None:
        if parked is None:
            return None
        self._leave(parked)
        return parked.message

    def _leave(self, parked: ParkedFetch) -> None:
        """Out of every index."""
        if parked.has_left:
            return
        parked.has_left = True
        self._by_deadline.discard(parked)
        message = parked.message
        if message.replica is not None:
            self._replicas_by_high_watermark.discard(parked)
            for replicas in (self._voters, self._observers):
                if replicas.get(message.replica) is parked:
                    del replicas[message.replica]
            return
        self._consumers_by_need.discard(parked)
        self._consumers_by_offset.discard(parked)
        if message.asker is not None:
            self._of_asker[message.asker] -= 1
            if not self._of_asker[message.asker]:
                del self._of_asker[message.asker]
