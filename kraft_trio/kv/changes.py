"""Changes of keys together with their leases."""

from __future__ import annotations

from kraft_trio.kv.errors import KEY_NOT_FOUND, KvError
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.leases import Leases
from kraft_trio.kv.requests import DeleteRangeRequest, PutRequest
from kraft_trio.kv.responses import DeleteRangeResponse, KeyValue, PutResponse, ResponseHeader
from kraft_trio.kv.store import Store


class Changes:
    """Puts and deletes keys in the revision that `store.begin` has opened, and keeps the leases' keys in step."""

    def __init__(self, store: Store, leases: Leases) -> None:
        self.store = store
        self.leases = leases

    def check_put(self, request: PutRequest) -> None:
        """Raises KvError if the present state does not allow the request."""
        if (request.ignore_value or request.ignore_lease) and self.store.get(request.key) is None:
            raise KvError(*KEY_NOT_FOUND)
        if request.lease:
            self.leases.find(request.lease)

    def put(self, request: PutRequest) -> PutResponse:
        """Execute a request that was checked."""
        value, lease = request.value, request.lease
        if request.ignore_value or request.ignore_lease:
            present = self.store.get(request.key)
            value = present.value if present is not None and request.ignore_value else value
            lease = present.lease if present is not None and request.ignore_lease else lease
        previous = self.store.put(request.key, value, lease)
        if previous is not None and previous.lease != lease:
            self._detach(previous)
        if lease:
            self.leases.attach(request.key, lease)
        return PutResponse(self._header(), previous if request.prev_kv else None)

    def delete_range(self, request: DeleteRangeRequest) -> DeleteRangeResponse:
        """Execute a request that was checked."""
        deleted = self.store.delete(Interval.of(request.key, request.range_end))
        for kv in deleted:
            self._detach(kv)
        return DeleteRangeResponse(self._header(), len(deleted), tuple(deleted) if request.prev_kv else ())

    def revoke(self, lease_id: int) -> None:
        """End a lease and delete its keys, as one revision.  Raises KvError if there is no such lease."""
        self.store.begin()
        for key in self.leases.revoke(lease_id):
            self.store.delete(Interval.of(key, b""))

    def _detach(self, kv: KeyValue) -> None:
        if kv.lease:
            self.leases.detach(kv.key, kv.lease)

    def _header(self) -> ResponseHeader:
        return ResponseHeader(revision=self.store.revision)
