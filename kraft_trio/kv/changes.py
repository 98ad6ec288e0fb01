"""Changes of keys together with their leases: one transaction, which is committed as a whole or not at all."""

from __future__ import annotations

from collections import deque

from kraft_trio.kv.budget import Budget, Steps
from kraft_trio.kv.errors import KEY_NOT_FOUND, KvError
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.leases import Leases
from kraft_trio.kv.requests import DeleteRangeRequest, PutRequest
from kraft_trio.kv.responses import DeleteRangeResponse, KeyValue, PutResponse, ResponseHeader
from kraft_trio.kv.store import Store


class Changes:
    """Puts and deletes keys in a transaction of the store.  The leases get to know of it at its end."""

    def __init__(self, store: Store, leases: Leases, budget: Budget) -> None:
        self.store = store
        self.leases = leases
        self.budget = budget
        self._moved: deque[tuple[KeyValue | None, KeyValue | None]] = deque()
        """Versions with a lease, and what they have replaced; None for a version without a lease."""
        store.begin()

    def check_put(self, request: PutRequest) -> None:
        """Raises KvError if the present state does not allow the request."""
        if request.lease:
            self.leases.find(request.lease)
        if (request.ignore_value or request.ignore_lease) and self.store.at(request.key, None) is None:
            raise KvError(*KEY_NOT_FOUND)

    def put(self, request: PutRequest) -> PutResponse:
        """Execute a request that was checked.  Raises KvError if the answer is too large."""
        value, lease = request.value, request.lease
        if request.ignore_value or request.ignore_lease:
            present = self.store.at(request.key, None)
            value = present.value if present is not None and request.ignore_value else value
            lease = present.lease if present is not None and request.ignore_lease else lease
        previous = self.store.put(request.key, value, lease)
        if lease or (previous is not None and previous.lease):
            self._moved.append((previous, self.store.at(request.key, None)))
        if not request.prev_kv or previous is None:
            return PutResponse(self._header())
        self.budget.answer((previous,))
        return PutResponse(self._header(), previous)

    def delete_range(self, request: DeleteRangeRequest) -> Steps[DeleteRangeResponse]:
        """Execute a request that was checked.  Raises KvError if it looks at too many keys or answers too much."""
        deleted = 0
        previous: list[KeyValue] = []
        for piece in self.store.pieces(Interval.of(request.key, request.range_end), None, self.budget):
            if request.prev_kv:
                self.budget.answer(piece)
                previous += piece
            for kv in piece:
                self._delete(kv)
            deleted += len(piece)
            if self.budget.ends_piece:
                yield
        return DeleteRangeResponse(self._header(), deleted, tuple(previous))

    def revoke(self, lease_id: int) -> Steps[None]:
        """End a lease and delete its keys.  Raises KvError if there is no such lease."""
        for key in (yield from self.leases.sorted_keys(lease_id)):
            self.store.delete(key)
            self.budget.change(key)
            if self.budget.ends_piece:
                yield
        self.leases.remove(lease_id)

    def _delete(self, kv: KeyValue) -> None:
        self.store.delete(kv.key)
        if kv.lease:
            self._moved.append((kv, None))

    def commit(self) -> Steps[None]:
        """End the transaction, and let others see it."""
        while self._moved:
            self.leases.replace(*self._moved.popleft())
            self.budget.work(1)
            if self.budget.ends_piece:
                yield
        self.store.commit()

    def _header(self) -> ResponseHeader:
        return ResponseHeader(revision=self.store.newest_revision)
