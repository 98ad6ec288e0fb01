"""Leases: keys that are deleted unless somebody keeps renewing them.

Time is that of `advance`, which the leader proposes through the log, so all replicas end a lease at the same record.
The time of a renewed lease counts from the next `advance`: a lease lasts at least its TTL, and while no leader
proposes the time, no lease ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import attrs
from sortedcontainers import SortedList

from kraft_trio.kv.budget import KEYS_PER_PIECE, Steps
from kraft_trio.kv.errors import LEASE_EXISTS, LEASE_NOT_FOUND, LEASE_TTL_TOO_LARGE, KvError
from kraft_trio.kv.pieces import sorted_in_pieces
from kraft_trio.kv.responses import KeyValue

MIN_TTL_S: Final = 2
"""Shorter ones are raised to this, as etcd does with its default timeouts."""
MAX_TTL_S: Final = 9_000_000_000
MAX_STEP_MS: Final = 24 * 60 * 60 * 1000
"""A record that any client has written could else set the time so far ahead that no number could hold what follows."""


@attrs.frozen(eq=False)
class Lease:
    """`ends_ms` is None after a renewal, until the next `advance`.

    A lease with another time is another object, so a snapshot may keep this one.  Its keys change.
    """

    id: int
    ttl_s: int
    ends_ms: int | None = None
    keys: set[bytes] = attrs.field(factory=set)


class Leases:
    """Owns the leases and knows their keys, which the store has."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._leases: dict[int, Lease] = {}
        self._ends: SortedList[tuple[int, int]] = SortedList()
        """When each lease ends that has a time, and its id."""
        self._renewed: dict[int, None] = {}
        """The ids of the others, the one that was renewed first in front."""

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        """All leases, the oldest first."""
        return iter(self._leases.values())

    def ids(self) -> list[int]:
        """The ids of all leases, the oldest first."""
        return list(self._leases)

    def find(self, lease_id: int) -> Lease:
        """Raises KvError if there is no such lease."""
        lease = self._leases.get(lease_id)
        if lease is None:
            raise KvError(*LEASE_NOT_FOUND)
        return lease

    def get(self, lease_id: int) -> Lease | None:
        return self._leases.get(lease_id)

    def grant(self, lease_id: int, ttl_s: int) -> Lease:
        """Make a lease.  Raises KvError if the id is in use or the time is too long."""
        if not lease_id:
            raise KvError(*LEASE_NOT_FOUND)
        if ttl_s > MAX_TTL_S:
            raise KvError(*LEASE_TTL_TOO_LARGE)
        if lease_id in self._leases:
            raise KvError(*LEASE_EXISTS)
        return self.restore(lease_id, max(ttl_s, MIN_TTL_S), None)

    def restore(self, lease_id: int, ttl_s: int, ends_ms: int | None) -> Lease:
        """Add a lease as it was."""
        lease = self._leases[lease_id] = Lease(lease_id, ttl_s, ends_ms)
        if ends_ms is None:
            self._renewed[lease_id] = None
        else:
            self._ends.add((ends_ms, lease_id))
        return lease

    def sorted_keys(self, lease_id: int) -> Steps[list[bytes]]:
        """The keys of a lease, in pieces.  Raises KvError if there is no such lease."""
        return (yield from sorted_in_pieces(list(self.find(lease_id).keys), size=len))

    def remove(self, lease_id: int) -> None:
        """End a lease."""
        lease = self._leases.pop(lease_id)
        self._renewed.pop(lease_id, None)
        if lease.ends_ms is not None:
            self._ends.remove((lease.ends_ms, lease_id))

    def renew(self, lease_id: int) -> Lease:
        """Give a lease its whole time again.  Raises KvError if there is no such lease."""
        lease = self.find(lease_id)
        if lease.ends_ms is not None:
            self._ends.remove((lease.ends_ms, lease_id))
            lease = self._leases[lease_id] = Lease(lease_id, lease.ttl_s, None, lease.keys)
            self._renewed[lease_id] = None
        return lease

    def remaining_s(self, lease: Lease) -> int:
        """The whole seconds that a lease lasts if nobody renews it."""
        return lease.ttl_s if lease.ends_ms is None else max(0, lease.ends_ms - self.now_ms) // 1000

    def replace(self, previous: KeyValue | None, kv: KeyValue | None) -> None:
        """Note that a version of a key has replaced another one; None means no version."""
        if previous is not None and previous.lease:
            lease = self._leases.get(previous.lease)
            if lease is not None:
                lease.keys.discard(previous.key)
        if kv is not None and kv.lease:
            lease = self._leases.get(kv.lease)
            if lease is not None:
                lease.keys.add(kv.key)

    def advance(self, now_ms: int) -> Steps[None]:
        """Set the time, at most MAX_STEP_MS ahead at once, and begin with that of renewed leases."""
        self.now_ms = max(self.now_ms, min(now_ms, self.now_ms + MAX_STEP_MS))
        while self._renewed:
            for lease_id in list(islice(self._renewed, KEYS_PER_PIECE)):
                del self._renewed[lease_id]
                lease = self._leases[lease_id]
                ends_ms = self.now_ms + lease.ttl_s * 1000
                self._leases[lease_id] = Lease(lease_id, lease.ttl_s, ends_ms, lease.keys)
                self._ends.add((ends_ms, lease_id))
            yield

    @property
    def first_ended(self) -> int | None:
        """The id of the lease that has ended first, if one has."""
        ended: int | None = self._ends[0][1] if self._ends and self._ends[0][0] <= self.now_ms else None
        return ended
