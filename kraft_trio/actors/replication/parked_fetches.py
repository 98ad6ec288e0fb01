"""The Fetch requests that wait at a leader, indexed by what they wait for."""

from __future__ import annotations

from collections import Counter

import attrs

from kraft_trio.actors.waiting.removable_heap import RemovableHeap
from kraft_trio.messages import Asker, FetchReceived
from kraft_trio.protocol.types import ReplicaKey


@attrs.frozen
class ParkingLimits:
    """How many fetches of others than voters may wait."""

    consumers: int = 1000
    by_one_asker: int = 4
    """Limit for one connection.  An ordinary consumer has one Fetch under way."""
    observers: int = 200


@attrs.define(eq=False)
class ParkedFetch:
    """A Fetch that waits until `deadline` (on Trio's clock) at the latest."""

    message: FetchReceived
    deadline: float
    has_left: bool = False


class ParkedFetches:
    """Holds waiting fetches for LeaderFetches of one epoch.

    A Fetch leaves when it is taken to be answered, or when its connection closes.  The methods take one Fetch at a
    time, so that the caller can stop in between.
    """

    def __init__(self, limits: ParkingLimits) -> None:
        self._limits = limits
        self._by_deadline: RemovableHeap[ParkedFetch] = RemovableHeap()
        self._voters: dict[ReplicaKey, ParkedFetch] = {}
        self._observers: dict[ReplicaKey, ParkedFetch] = {}
        """At most one for each replica, in order of arrival.  Each waits at what was the log's end at its arrival."""
        self._replicas_by_high_watermark: RemovableHeap[ParkedFetch] = RemovableHeap()
        """By the high watermark that the replica knows.  Only fetches that can be told a newer one."""
        self._consumers_by_need: RemovableHeap[ParkedFetch] = RemovableHeap()
        """By the number of committed bytes that they wait for, as `Log.bytes_before` counts."""
        self._consumers_by_offset: RemovableHeap[ParkedFetch] = RemovableHeap()
        self._of_asker: Counter[object] = Counter()
        self._of_address: dict[str, dict[ParkedFetch, None]] = {}
        """Those of consumers, the oldest of each address first."""

    def __len__(self) -> int:
        return len(self._by_deadline)

    @property
    def size(self) -> int:
        """The number of entries in all indexes."""
        heaps = (
            self._by_deadline,
            self._replicas_by_high_watermark,
            self._consumers_by_need,
            self._consumers_by_offset,
        )
        of_addresses = sum(map(len, self._of_address.values()))
        counted = len(self._voters) + len(self._observers) + len(self._of_asker) + of_addresses
        return sum(heap.size for heap in heaps) + counted

    @property
    def next_deadline(self) -> float:
        """Infinity if nothing waits."""
        return self._by_deadline.lowest_key

    @property
    def has_consumers(self) -> bool:
        return len(self._consumers_by_need) > 0

    # Coming

    def has_room_for_consumer(self, asker: Asker | None) -> bool:
        return len(self._consumers_by_offset) < self._limits.consumers and self._may_wait(asker)

    def _may_wait(self, asker: Asker | None) -> bool:
        return self._of_asker[asker] < self._limits.by_one_asker

    def take_for_consumer(self, asker: Asker | None) -> FetchReceived | None:
        """Take the oldest Fetch of the address with the most, so that one of a connection at another one may wait.

        None if that address has not at least two more, or if the connection has as many as it may.
        """
        if not self._of_address or not self._may_wait(asker):
            return None
        most = max(self._of_address.values(), key=len)
        of_asker = self._of_address.get(_address(asker), ())
        return self._taken(next(iter(most))) if len(most) >= len(of_asker) + 2 else None

    def has_room_for_replica(self, *, is_voter: bool) -> bool:
        """Whether a replica's Fetch may wait.  There is always room for voters, because they are few."""
        return is_voter or len(self._observers) < self._limits.observers

    def park_consumer(self, message: FetchReceived, deadline: float, needed_bytes: int) -> None:
        parked = ParkedFetch(message, deadline)
        self._consumers_by_need.put(parked, needed_bytes)
        self._consumers_by_offset.put(parked, message.partition.fetch_offset)
        if message.asker is not None:
            self._of_asker[message.asker] += 1
        self._of_address.setdefault(_address(message.asker), {})[parked] = None
        self._enter(parked)

    def park_replica(
        self, message: FetchReceived, replica: ReplicaKey, deadline: float, *, is_voter: bool, awaits_news: bool
    ) -> None:
        """Park a Fetch after `take_replica`.  `awaits_news`: the replica can be told a newer high watermark."""
        parked = ParkedFetch(message, deadline)
        (self._voters if is_voter else self._observers)[replica] = parked
        if awaits_news:
            self._replicas_by_high_watermark.put(parked, message.partition.high_watermark)
        self._enter(parked)

    def _enter(self, parked: ParkedFetch) -> None:
        self._by_deadline.put(parked, parked.deadline)
        parked.message.reply.when_abandoned(lambda: self._leave(parked))

    # Going

    def asker_of(self, replica: ReplicaKey) -> Asker | None:
        """The connection of the waiting Fetch of a replica; None if no Fetch waits."""
        parked = self._voters.get(replica) or self._observers.get(replica)
        return None if parked is None else parked.message.asker

    def take_replica(self, replica: ReplicaKey) -> FetchReceived | None:
        """Take the waiting Fetch of a replica that has sent another one."""
        parked = self._voters.get(replica) or self._observers.get(replica)
        return self._taken(parked)

    def take_replica_below(self, end_offset: int) -> FetchReceived | None:
        """Take a Fetch that waits at an end of the log below `end_offset`, voters first."""
        for replicas in (self._voters, self._observers):
            # The first one waits at the lowest end.
            first = next(iter(replicas.values()), None)
            if first is not None and first.message.partition.fetch_offset < end_offset:
                return self._taken(first)
        return None

    def take_voter(self) -> FetchReceived | None:
        return self._taken(next(iter(self._voters.values()), None))

    def take_satisfied_consumer(self, committed_bytes: int) -> FetchReceived | None:
        """Take a consumer's Fetch that waits for at most that many committed bytes."""
        return self._taken(self._consumers_by_need.pop_up_to(committed_bytes))

    def take_consumer_below(self, offset: int) -> FetchReceived | None:
        return self._taken(self._consumers_by_offset.pop_up_to(offset - 1))

    def take_expired(self, now_s: float) -> FetchReceived | None:
        return self._taken(self._by_deadline.pop_up_to(now_s))

    def take_any(self) -> FetchReceived | None:
        return self._taken(self._by_deadline.pop_up_to(self.next_deadline))

    def hurry_uninformed(self, high_watermark: int, deadline: float) -> bool:
        """Set an earlier deadline for replicas that can be told the high watermark.  Returns whether there are any."""
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
        """Remove a Fetch from every index."""
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
        of_address = self._of_address[_address(message.asker)]
        del of_address[parked]
        if not of_address:
            del self._of_address[_address(message.asker)]
        if message.asker is not None:
            self._of_asker[message.asker] -= 1
            if not self._of_asker[message.asker]:
                del self._of_asker[message.asker]


def _address(asker: Asker | None) -> str:
    return "" if asker is None else asker.peer_host
