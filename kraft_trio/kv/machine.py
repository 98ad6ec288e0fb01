"""The key-value store as a state machine of the library."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

from kraft_trio.application.state_machine import Committed
from kraft_trio.kv import requests, responses
from kraft_trio.kv.changes import Changes
from kraft_trio.kv.command_serde import NoCommand
from kraft_trio.kv.leases import Leases
from kraft_trio.kv.request_checks import check_delete_range, check_put
from kraft_trio.kv.requests import Command
from kraft_trio.kv.responses import Done, ResponseHeader, Result
from kraft_trio.kv.snapshot_records import load_state, state_records
from kraft_trio.kv.store import Store
from kraft_trio.kv.transactions import execute_txn
from kraft_trio.storage.batch import NewRecord, Record


class KvMachine:
    """Applies commands to a store with leases.

    Results carry the revision in their header.  A command that is refused raises KvError.
    """

    def __init__(self) -> None:
        self.store = Store()
        self.leases = Leases()
        self.members: dict[int, tuple[str, ...]] = {}
        """Where the gateways of the nodes listen."""
        self.on_change: Callable[[], object] = lambda: None
        """Called after each change of the store or its members."""

    def apply(self, record: Committed[Command | NoCommand], /) -> Result:
        """Apply one command."""
        apply = _APPLY.get(type(record.value))
        if apply is None:
            return Done()
        result = apply(self, cast(Any, record.value))
        self.on_change()
        return result

    def save(self) -> Iterable[NewRecord]:
        """The present state.  Versions never change, so a copy of their list is enough."""
        return state_records(self.store, self.leases, self.members)

    async def load(self, records: AsyncIterator[Record], /) -> None:
        """Replace the present state by that of a snapshot."""
        self.store, self.leases, self.members = await load_state(records)
        self.on_change()

    @property
    def header(self) -> ResponseHeader:
        """The header of an answer from the present state."""
        return ResponseHeader(revision=self.store.revision)

    @property
    def _changes(self) -> Changes:
        return Changes(self.store, self.leases)

    def _put(self, request: requests.PutRequest) -> Result:
        check_put(request)
        changes = self._changes
        changes.check_put(request)
        self.store.begin()
        return changes.put(request)

    def _delete_range(self, request: requests.DeleteRangeRequest) -> Result:
        check_delete_range(request)
        self.store.begin()
        return self._changes.delete_range(request)

    def _txn(self, request: requests.TxnRequest) -> Result:
        self.store.begin()
        return execute_txn(self._changes, request)

    def _compact(self, request: requests.CompactionRequest) -> Result:
        self.store.compact(request.revision)
        return responses.CompactionResponse(self.header)

    def _grant(self, request: requests.LeaseGrantRequest) -> Result:
        lease = self.leases.grant(request.id, request.ttl)
        return responses.LeaseGrantResponse(self.header, lease.id, lease.ttl_s)

    def _revoke(self, request: requests.LeaseRevokeRequest) -> Result:
        self._changes.revoke(request.id)
        return responses.LeaseRevokeResponse(self.header)

    def _keep_alive(self, request: requests.LeaseKeepAliveRequest) -> Result:
        if self.leases.get(request.id) is None:
            return responses.LeaseKeepAliveResponse(self.header, request.id)
        return responses.LeaseKeepAliveResponse(self.header, request.id, self.leases.renew(request.id).ttl_s)

    def _advance(self, request: requests.Advance) -> Result:
        for lease_id in self.leases.advance(request.now_ms):
            self._changes.revoke(lease_id)
        return Done()

    def _announce(self, request: requests.AnnounceMember) -> Result:
        self.members[request.node_id] = request.client_urls
        return Done()


_APPLY: dict[type[Any], Callable[[KvMachine, Any], Result]] = {
    requests.PutRequest: KvMachine._put,
    requests.DeleteRangeRequest: KvMachine._delete_range,
    requests.TxnRequest: KvMachine._txn,
    requests.CompactionRequest: KvMachine._compact,
    requests.LeaseGrantRequest: KvMachine._grant,
    requests.LeaseRevokeRequest: KvMachine._revoke,
    requests.LeaseKeepAliveRequest: KvMachine._keep_alive,
    requests.Advance: KvMachine._advance,
    requests.AnnounceMember: KvMachine._announce,
}
