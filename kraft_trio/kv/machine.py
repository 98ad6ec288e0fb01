"""The key-value store as a state machine of the library."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final, TypeVar, cast

import trio

from kraft_trio.application.state_machine import Committed
from kraft_trio.kv import requests, responses
from kraft_trio.kv.budget import Budget, Steps, run_at_once
from kraft_trio.kv.changes import Changes
from kraft_trio.kv.command_serde import NoCommand, TooLarge
from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.leases import Leases
from kraft_trio.kv.request_checks import check_delete_range, check_put, check_txn
from kraft_trio.kv.requests import AlarmAction, AlarmType, Command
from kraft_trio.kv.responses import Done, ResponseHeader, Result
from kraft_trio.kv.snapshot_records import load_state, state_records
from kraft_trio.kv.space import LEASE_COST, Space, put_cost, txn_cost
from kraft_trio.kv.store import Store
from kraft_trio.kv.transactions import execute_txn, is_short_txn
from kraft_trio.storage.batches.batch import NewRecord, Record

R = TypeVar("R")
MAX_MEMBERS: Final = 1000
MAX_MEMBER_CHARACTERS: Final = 4096
"""Of a member's addresses, where each counts as one more.  Members are no part of the quota."""
_WORK_PER_LEASE: Final = 16
"""To end a lease takes about as long as to look at so many keys."""


class KvMachine:
    """Applies commands to a store with leases.

    Results carry the revision in their header.  A command that is refused raises KvError.
    """

    def __init__(self) -> None:
        self.store = Store()
        self.leases = Leases()
        self.space = Space()
        self.members: dict[int, tuple[str, ...]] = {}
        """Where the gateways of the nodes listen."""
        self.on_change: Callable[[], object] = lambda: None
        """Called after each change of the store or its members."""

    def accepts(self, record: Committed[Command | NoCommand | TooLarge], /) -> bool:
        """Whether a client may produce the record: it must be a command, although others would do no harm."""
        return not isinstance(record.value, NoCommand | TooLarge)

    def apply(self, record: Committed[Command | NoCommand | TooLarge], /) -> Result:
        """Apply one command, in one turn of the event loop."""
        command = cast(Any, record.value)
        if isinstance(command, TooLarge):
            raise KvError(*command.error)
        apply, steps = _APPLY.get(type(command)), _STEPS.get(type(command))
        if apply is not None:
            result = apply(self, command)
        elif steps is not None:
            result = run_at_once(steps(self, command))
        else:
            return Done()
        self.on_change()
        return result

    def apply_in_steps(self, record: Committed[Command | NoCommand | TooLarge], /) -> Steps[Result] | None:
        """The steps of a command that may be large, None for any other, whatever the state."""
        command = cast(Any, record.value)
        steps, is_short = _STEPS.get(type(command)), _IS_SHORT.get(type(command))
        if steps is None or (is_short is not None and is_short(command)):
            return None
        return self._applied(steps(self, command))

    def _applied(self, steps: Steps[Result]) -> Steps[Result]:
        result = yield from steps
        self.on_change()
        return result

    @property
    def size_in_bytes(self) -> int:
        """What counts towards the quota."""
        return self.store.size_in_bytes + LEASE_COST * len(self.leases)

    def save(self) -> Iterable[NewRecord]:
        """The present state.  Versions never change, so a copy of their list is enough."""
        return state_records(self.store, self.leases, self.space, self.members)

    async def load(self, records: AsyncIterator[Record], /) -> None:
        """Replace the present state by that of a snapshot."""
        before = self.store
        self.store, self.leases, self.space, self.members = await load_state(records)
        self.on_change()
        for _ in before.forget():
            await trio.lowlevel.checkpoint()

    @property
    def header(self) -> ResponseHeader:
        """The header of an answer from the present state."""
        return ResponseHeader(revision=self.store.revision)

    def _changes(self, budget: Budget) -> Changes:
        return Changes(self.store, self.leases, budget)

    def _put(self, request: requests.PutRequest) -> Result:
        check_put(request)
        self.space.check(self.size_in_bytes, put_cost(request))
        changes = self._changes(Budget())
        changes.check_put(request)
        try:
            response = changes.put(request)
        except KvError:
            run_at_once(self.store.rollback())
            raise
        run_at_once(changes.commit())
        return response

    def _delete_range(self, request: requests.DeleteRangeRequest) -> Steps[Result]:
        check_delete_range(request)
        changes = self._changes(Budget(max_keys=None))
        return (yield from self._committed(changes, changes.delete_range(request)))

    def _txn(self, request: requests.TxnRequest) -> Steps[Result]:
        check_txn(request)
        self.space.check(self.size_in_bytes, txn_cost(request))
        changes = self._changes(Budget())
        return (yield from self._committed(changes, execute_txn(changes, request)))

    def _committed(self, changes: Changes, steps: Steps[R]) -> Steps[R]:
        """Do the steps of a transaction, and commit it or undo it."""
        try:
            result = yield from steps
        except KvError:
            yield from self.store.rollback()
            raise
        yield from changes.commit()
        return result

    def _compact(self, request: requests.CompactionRequest) -> Steps[Result]:
        yield from self.store.compact(request.revision)
        return responses.CompactionResponse(self.header)

    def _grant(self, request: requests.LeaseGrantRequest) -> Result:
        self.space.check(self.size_in_bytes, LEASE_COST)
        lease = self.leases.grant(request.id, request.ttl)
        return responses.LeaseGrantResponse(self.header, lease.id, lease.ttl_s)

    def _revoke(self, request: requests.LeaseRevokeRequest) -> Steps[Result]:
        yield from self._end_lease(request.id, Budget.without_limits())
        return responses.LeaseRevokeResponse(self.header)

    def _end_lease(self, lease_id: int, budget: Budget) -> Steps[None]:
        changes = self._changes(budget)
        yield from changes.revoke(lease_id)
        yield from changes.commit()

    def _keep_alive(self, request: requests.LeaseKeepAliveRequest) -> Result:
        if self.leases.get(request.id) is None:
            return responses.LeaseKeepAliveResponse(self.header, request.id)
        return responses.LeaseKeepAliveResponse(self.header, request.id, self.leases.renew(request.id).ttl_s)

    def _advance(self, request: requests.Advance) -> Steps[Result]:
        yield from self.leases.advance(request.now_ms)
        budget = Budget.without_limits()
        while (lease_id := self.leases.first_ended) is not None:
            yield from self._end_lease(lease_id, budget)
            budget.work(_WORK_PER_LEASE)
            if budget.ends_piece:
                yield
        return Done()

    def _announce(self, request: requests.AnnounceMember) -> Result:
        """Of too many, those with the highest ids are forgotten, so that nobody can shut the others out."""
        if sum(map(len, request.client_urls)) + len(request.client_urls) > MAX_MEMBER_CHARACTERS:
            raise KvError(Code.INVALID_ARGUMENT, f"client_urls: over {MAX_MEMBER_CHARACTERS} characters")
        self.members[request.node_id] = request.client_urls
        if len(self.members) > MAX_MEMBERS:
            del self.members[max(self.members)]
        return Done()

    @property
    def complaint(self) -> str | None:
        """Why the store takes no more keys."""
        space = self.space
        return f"alarm NOSPACE, at a quota of {space.quota_bytes} bytes" if space.is_full else None

    def _set_quota(self, request: requests.SetQuota) -> Result:
        self.space.quota_bytes = request.quota_bytes
        return Done()

    def _alarm(self, request: requests.AlarmRequest) -> Result:
        """The answer names the alarm that was raised or disarmed."""
        disarmed = self.space.alarms
        if request.alarm is AlarmType.NOSPACE and request.action is not AlarmAction.GET:
            self.space.is_full = request.action is AlarmAction.ACTIVATE
        return responses.AlarmResponse(self.header, self.space.alarms or disarmed)


_APPLY: Final[dict[type[Any], Callable[[KvMachine, Any], Result]]] = {
    requests.PutRequest: KvMachine._put,
    requests.LeaseGrantRequest: KvMachine._grant,
    requests.LeaseKeepAliveRequest: KvMachine._keep_alive,
    requests.AnnounceMember: KvMachine._announce,
    requests.SetQuota: KvMachine._set_quota,
    requests.AlarmRequest: KvMachine._alarm,
}
_STEPS: Final[dict[type[Any], Callable[[KvMachine, Any], Steps[Result]]]] = {
    requests.DeleteRangeRequest: KvMachine._delete_range,
    requests.TxnRequest: KvMachine._txn,
    requests.CompactionRequest: KvMachine._compact,
    requests.LeaseRevokeRequest: KvMachine._revoke,
    requests.Advance: KvMachine._advance,
}
_IS_SHORT: Final[dict[type[Any], Callable[[Any], bool]]] = {
    requests.DeleteRangeRequest: lambda request: not request.range_end,
    requests.TxnRequest: is_short_txn,
}
"""Of the others, only the state tells what they cost, and a command before them may change it."""
