"""Leases: keys that are deleted unless somebody keeps renewing them.

Time is that of `advance`, which the leader proposes through the log, so all replicas end a lease at the same record.
The time of a renewed lease counts from the next `advance`: a lease lasts at least its TTL, and while no leader
proposes the time, no lease ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from kraft_trio.kv.errors import LEASE_EXISTS, LEASE_NOT_FOUND, LEASE_TTL_TOO_LARGE, KvError

MIN_TTL_S: Final = 2
"""Shorter ones are raised to this, as etcd does with its default timeouts."""
MAX_TTL_S: Final = 9_000_000_000
MAX_STEP_MS: Final = 24 * 60 * 60 * 1000
"""A record that any client has written could else set the time so far ahead that no number could hold what follows."""


@attrs.define
class Lease:
    """`ends_ms` is None after a renewal, until the next `advance`."""

    id: int
    ttl_s: int
    ends_ms: int | None = None
    keys: set[bytes] = attrs.field(factory=set)


class Leases:
    """Owns the leases and knows their keys, which the store has."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self._leases: dict[int, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        """All leases, the oldest first."""
        return iter(self._leases.values())

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
        lease = self._leases[lease_id] = Lease(lease_id, max(ttl_s, MIN_TTL_S))
        return lease

    def revoke(self, lease_id: int) -> list[bytes]:
        """End a lease, and return its keys, sorted.  Raises KvError if there is no such lease."""
        keys = sorted(self.find(lease_id).keys)
        del self._leases[lease_id]
        return keys

    def renew(self, lease_id: int) -> Lease:
        """Give a lease its whole time again.  Raises KvError if there is no such lease."""
        lease = self.find(lease_id)
        lease.ends_ms = None
        return lease

    def remaining_s(self, lease: Lease) -> int:
        """The whole seconds that a lease lasts if nobody renews it."""
        return lease.ttl_s if lease.ends_ms is None else max(0, lease.ends_ms - self.now_ms) // 1000

    def attach(self, key: bytes, lease_id: int) -> None:
        self._leases[lease_id].keys.add(key)

    def detach(self, key: bytes, lease_id: int) -> None:
        lease = self._leases.get(lease_id)
        if lease is not None:
            lease.keys.discard(key)

    def advance(self, now_ms: int) -> list[int]:
        """Take over the time, at most MAX_STEP_MS at once.

        Return the ids of the leases that have ended, the one that ended first in front.
        """
        self.now_ms = max(self.now_ms, min(now_ms, self.now_ms + MAX_STEP_MS))
        ended = []
        for lease in self._leases.values():
            if lease.ends_ms is None:
                lease.ends_ms = self.now_ms + lease.ttl_s * 1000
            elif lease.ends_ms <= self.now_ms:
                ended.append((lease.ends_ms, lease.id))
        return [lease_id for _, lease_id in sorted(ended)]

    def restore(self, leases: Iterable[Lease]) -> None:
        self._leases = {lease.id: lease for lease in leases}
