"""Taking turns, for locks and elections: who has added the oldest key below a name has the turn.

Each contender's key hangs on a lease, so a contender that dies loses its place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from kraft_trio.kv.errors import LEASE_NOT_FOUND, Code, KvError
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.intervals import Interval, prefix_end
from kraft_trio.kv.requests import (
    Compare,
    CompareTarget,
    DeleteRangeRequest,
    LeaseGrantRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    SortOrder,
    SortTarget,
    TxnRequest,
)
from kraft_trio.kv.responses import KeyValue

_OWN_LEASE_TTL_S = 60


class Turns:
    """The contenders for one name."""

    def __init__(self, service: KvService, name: bytes) -> None:
        self._service = service
        self._prefix = name + b"/"
        self.interval = Interval.of(self._prefix, prefix_end(self._prefix))
        """All their keys."""

    @asynccontextmanager
    async def joined(self, lease: int, value: bytes = b"") -> AsyncIterator[KeyValue]:
        """Add a key with that lease, or find the key that it has already.  If the block fails, give up a new place."""
        own, is_new = await self._join(lease, value)
        try:
            yield own
        except BaseException:
            if is_new:
                await self._leave(own.key)
            raise

    async def _join(self, lease: int, value: bytes) -> tuple[KeyValue, bool]:
        """Return the key, and whether it is new.  Without a lease, it gets one of its own, which nobody renews."""
        if not lease:
            lease = (await self._service.lease_grant(LeaseGrantRequest(_OWN_LEASE_TTL_S))).id
        key = self._prefix + (b"%x" % (lease & 2**64 - 1))
        absent = Compare(key=key, target=CompareTarget.CREATE, create_revision=0)
        put = RequestOp(request_put=PutRequest(key, value, lease))
        get = RequestOp(request_range=RangeRequest(key))
        response = await self._service.txn(TxnRequest((absent,), (put, get), (get,)))
        found = response.responses[-1].response_range
        assert found is not None
        return found.kvs[0], response.succeeded

    async def wait_for_turn(self, own: KeyValue) -> None:
        """Wait until all who came before are gone, and this node knows it.  Raises KvError if the own key is gone."""
        await self._wait_by_own_state(own)
        await self._service.barrier()
        await self._wait_by_own_state(own)

    async def _wait_by_own_state(self, own: KeyValue) -> None:
        while True:
            with self._service.changes.place(self.interval) as place:
                present = self._service.machine.store.get(own.key)
                if present is None or present.create_revision != own.create_revision:
                    raise KvError(Code.UNKNOWN, LEASE_NOT_FOUND[1])
                first = await self.first()
                if first is not None and first.create_revision == own.create_revision:
                    return
                await place.wait()

    async def _leave(self, key: bytes) -> None:
        """Give up the place, also when the caller is cancelled."""
        with trio.CancelScope(shield=True), trio.move_on_after(1):
            try:
                await self._service.delete_range(DeleteRangeRequest(key))
            except KvError:
                pass  # then the lease ends it

    async def first(self) -> KeyValue | None:
        """Who has the turn, as this node's state says."""
        everyone = RangeRequest(
            self._prefix,
            prefix_end(self._prefix),
            limit=1,
            sort_order=SortOrder.ASCEND,
            sort_target=SortTarget.CREATE,
        )
        found = await self._service.read(everyone)
        return found.kvs[0] if found.kvs else None


@contextmanager
def as_unknown() -> Iterator[None]:
    """Raise KvErrors of the block with the code Unknown, as etcd does here, except those of an unavailable quorum."""
    try:
        yield
    except KvError as error:
        if error.code is Code.UNAVAILABLE:
            raise
        raise KvError(Code.UNKNOWN, error.message) from None
