"""etcd's lock service: a lock is held by the oldest key below its name."""

from __future__ import annotations

from uuid import UUID

import attrs

from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.gateway.turns import Turns, as_unknown
from kraft_trio.kv.requests import DeleteRangeRequest
from kraft_trio.kv.responses import HeaderResponse, ResponseHeader


@attrs.frozen
class LockRequest:
    """`lease` owns the lock: it is released when the lease ends."""

    name: bytes = b""
    lease: int = 0


@attrs.frozen
class LockResponse:
    """`key` exists as long as the lock is held."""

    header: ResponseHeader | None = None
    key: bytes = b""


@attrs.frozen
class UnlockRequest:
    """`key` is that of the LockResponse."""

    key: bytes = b""


class Locks:
    """Answers the lock service on one node."""

    def __init__(self, service: KvService) -> None:
        self._service = service

    async def lock(self, request: LockRequest, _: UUID | None = None) -> LockResponse:
        """Wait for the lock.  A client that stops waiting gives up its place."""
        turns = Turns(self._service, request.name)
        with as_unknown():
            async with turns.joined(request.lease) as own:
                await turns.wait_for_turn(own)
        return LockResponse(self._service.header(), own.key)

    async def unlock(self, request: UnlockRequest, _: UUID | None = None) -> HeaderResponse:
        with as_unknown():
            response = await self._service.delete_range(DeleteRangeRequest(request.key))
        return HeaderResponse(response.header)
