"""etcd's election service: the leader is who has the oldest key below the election's name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import attrs

from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.gateway.turns import Turns, as_unknown
from kraft_trio.kv.requests import (
    Compare,
    CompareTarget,
    DeleteRangeRequest,
    PutRequest,
    RequestOp,
    TxnRequest,
)
from kraft_trio.kv.responses import HeaderResponse, KeyValue, ResponseHeader


@attrs.frozen
class CampaignRequest:
    """`lease` owns the leadership: it ends with the lease.  `value` is what others see."""

    name: bytes = b""
    lease: int = 0
    value: bytes = b""


@attrs.frozen
class LeaderKey:
    """Proves a leadership: the key exists, created at `rev`, as long as it lasts."""

    name: bytes = b""
    key: bytes = b""
    rev: int = 0
    lease: int = 0


@attrs.frozen
class CampaignResponse:
    header: ResponseHeader | None = None
    leader: LeaderKey | None = None


@attrs.frozen
class ProclaimRequest:
    """Changes the leader's value."""

    leader: LeaderKey | None = None
    value: bytes = b""


@attrs.frozen
class ResignRequest:
    leader: LeaderKey | None = None


@attrs.frozen
class LeaderRequest:
    name: bytes = b""


@attrs.frozen
class LeaderResponse:
    header: ResponseHeader | None = None
    kv: KeyValue | None = None


class Elections:
    """Answers the election service on one node."""

    def __init__(self, service: KvService) -> None:
        self._service = service

    async def campaign(self, request: CampaignRequest, _: UUID | None = None) -> CampaignResponse:
        """Wait for the leadership.  A client that stops waiting gives up its place."""
        turns = Turns(self._service, request.name)
        with as_unknown():
            async with turns.joined(request.lease, request.value) as own:
                leader = LeaderKey(request.name, own.key, own.create_revision, own.lease)
                if own.value != request.value:
                    await self.proclaim(ProclaimRequest(leader, request.value))
                await turns.wait_for_turn(own)
        return CampaignResponse(self._service.header(), leader)

    async def proclaim(self, request: ProclaimRequest, _: UUID | None = None) -> HeaderResponse:
        leader = _given(request.leader)
        put = RequestOp(request_put=PutRequest(leader.key, request.value, leader.lease))
        with as_unknown():
            response = await self._service.txn(TxnRequest((_still_leads(leader),), (put,)))
        if not response.succeeded:
            raise KvError(Code.UNKNOWN, "election: not leader")
        return HeaderResponse(response.header)

    async def resign(self, request: ResignRequest, _: UUID | None = None) -> HeaderResponse:
        leader = _given(request.leader)
        delete = RequestOp(request_delete_range=DeleteRangeRequest(leader.key))
        with as_unknown():
            response = await self._service.txn(TxnRequest((_still_leads(leader),), (delete,)))
        return HeaderResponse(response.header)

    async def leader(self, request: LeaderRequest, _: UUID | None = None) -> LeaderResponse:
        with as_unknown():
            await self._service.barrier()
        first = await Turns(self._service, request.name).first()
        if first is None:
            raise KvError(Code.UNKNOWN, "election: no leader")
        return LeaderResponse(self._service.header(), first)

    async def observe(self, request: LeaderRequest, send: Callable[[LeaderResponse], Awaitable[None]]) -> None:
        """Report the leader, and then each new leader and each new value, until cancelled."""
        await self._service.barrier()
        turns, told = Turns(self._service, request.name), None
        while True:
            with self._service.changes.place(turns.interval) as place:
                first = await turns.first()
                if first is not None and first != told:
                    await send(LeaderResponse(self._service.header(), first))
                    told = first
                else:
                    await place.wait()


def _given(leader: LeaderKey | None) -> LeaderKey:
    if leader is None:
        raise KvError(Code.UNKNOWN, '"leader" field must be provided')
    return leader


def _still_leads(leader: LeaderKey) -> Compare:
    return Compare(key=leader.key, target=CompareTarget.CREATE, create_revision=leader.rev)
