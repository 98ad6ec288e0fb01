"""The operations of the gateway on one node: writes through the log, reads from this node's state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar, cast
from uuid import UUID

import attrs
import trio

from kraft_trio.actors.waiting.published import Published
from kraft_trio.errors import (
    CommandFailed,
    EncodeError,
    KraftError,
    NodeClosedError,
    RecordTooLargeError,
    RequestTooOldError,
    ResultLostError,
)
from kraft_trio.kv.budget import KEYS_PER_PIECE, Budget, Steps
from kraft_trio.kv.command_serde import NoCommand, TooLarge
from kraft_trio.kv.errors import COMPACTED, NO_LEADER, REQUEST_TOO_LARGE, STOPPED, TIMEOUT, Code, KvError
from kraft_trio.kv.gateway.change_waiters import ChangeWaiters
from kraft_trio.kv.gateway.member_ids import cluster_number, member_number
from kraft_trio.kv.gateway.read_turns import KEYS_PER_UNIT, ReadTurns
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.machine import KvMachine
from kraft_trio.kv.range_reads import range_in_pieces
from kraft_trio.kv.request_checks import check_delete_range, check_put, check_txn
from kraft_trio.kv.requests import (
    AlarmAction,
    AlarmRequest,
    AlarmType,
    Command,
    CompactionRequest,
    DeleteRangeRequest,
    LeaseGrantRequest,
    LeaseKeepAliveRequest,
    LeaseRevokeRequest,
    LeaseTimeToLiveRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
)
from kraft_trio.kv.responses import (
    AlarmResponse,
    CompactionResponse,
    DeleteRangeResponse,
    LeaseGrantResponse,
    LeaseKeepAliveResponse,
    LeaseLeasesResponse,
    LeaseRevokeResponse,
    LeaseStatus,
    LeaseTimeToLiveResponse,
    PutResponse,
    RangeResponse,
    ResponseHeader,
    Result,
    TxnResponse,
)
from kraft_trio.kv.store import Overtaken, Store
from kraft_trio.kv.transactions import read_txn
from kraft_trio.node import Node

KvNode = Node[Command | NoCommand | TooLarge, Result]
R = TypeVar("R")
T = TypeVar("T")

_MOST_OVERTAKEN: Final = 10
"""So many times, a read begins again."""
REQUEST_TIMEOUT_S: Final = 7.0
"""Time for a request that needs the quorum.  It is etcd's with default timeouts."""


class KvService:
    """Answers for one node, which runs `machine`.  All errors are KvErrors."""

    def __init__(self, node: KvNode, machine: KvMachine, random_bits: Callable[[int], int]) -> None:
        self.node = node
        self.machine = machine
        self._random_bits = random_bits
        self._cluster = cluster_number(node.cluster_id)
        self.member = member_number(node.cluster_id, node.key.id)
        self.changes = ChangeWaiters(machine)
        self.reads = ReadTurns()
        """Somebody must run both."""
        self.watches: Counter[str] = Counter()
        """Of each client's address."""
        self.has_leases: Published[bool] = Published(bool(machine.leases))
        machine.on_change = self._changed

    def _changed(self) -> None:
        self.changes.tell()
        has_leases = bool(self.machine.leases)
        if has_leases != self.has_leases.value:
            self.has_leases.publish(has_leases)

    def header(self, revision: int | None = None) -> ResponseHeader:
        """A header with this node's view; the revision is the present one unless it is given."""
        present = self.machine.store.revision if revision is None else revision
        return ResponseHeader(self._cluster, self.member, present, self.node.view.epoch)

    @contextmanager
    def ending_watch(self, host: str, cost: int) -> Iterator[None]:
        """Count a watch of that address, which counts as `cost`, no more once the block ends."""
        try:
            yield
        finally:
            self.watches[host] -= cost
            if not self.watches[host]:
                del self.watches[host]

    async def _from_quorum(self, request: Callable[[], Awaitable[T]], *, may_take_effect: bool) -> T:
        """Make a request to the quorum, and turn what may become of it into KvErrors."""
        try:
            with trio.CancelScope(deadline=trio.current_time() + REQUEST_TIMEOUT_S):
                return await request()
        except RecordTooLargeError:
            raise KvError(*REQUEST_TOO_LARGE) from None
        except EncodeError as error:
            raise KvError(Code.INVALID_ARGUMENT, str(error)) from None
        except NodeClosedError:
            raise KvError(*STOPPED) from None
        except (RequestTooOldError, ResultLostError) as error:
            raise KvError(Code.UNKNOWN, str(error)) from None
        except CommandFailed:
            raise
        except KraftError as error:
            raise KvError(Code.UNAVAILABLE, str(error)) from None
        # A command may wait for a leader, or be on its way to one, and take effect later.
        raise KvError(*(NO_LEADER if self.node.view.leader_id is None and not may_take_effect else TIMEOUT))

    async def execute(self, command: Command, request_id: UUID | None = None) -> Result:
        """Execute a command, and return the result of this node."""
        return await self._from_quorum(lambda: self.node.execute(command, request_id), may_take_effect=True)

    async def _executed(self, cls: type[R], command: Command, request_id: UUID | None) -> R:
        result = await self.execute(command, request_id)
        if not isinstance(result, cls):
            raise KvError(
                Code.INVALID_ARGUMENT, f"request id {request_id}: it was already used for another kind of request"
            )
        answer: Any = result
        return cast(R, attrs.evolve(answer, header=self.header(answer.header.revision)))

    async def barrier(self) -> None:
        """Wait until this node has all that was acknowledged before, anywhere."""
        await self._from_quorum(self.node.read_barrier, may_take_effect=False)

    async def range(self, request: RangeRequest, _: UUID | None = None) -> RangeResponse:
        if not request.serializable:
            await self.barrier()
        return await self.read(request)

    async def read(self, request: RangeRequest) -> RangeResponse:
        """Read a range from the state of this node, in pieces."""

        def begin(store: Store) -> Steps[RangeResponse]:
            header = self.header(store.revision)
            return range_in_pieces(store, request, store.revision, Budget.without_limits(), header)

        return await self._in_pieces(begin, _keys(self.machine.store, request))

    async def _in_pieces(self, begin: Callable[[Store], Steps[T]], keys: int) -> T:
        """Read from the present state, and again from a newer one if a compaction has overtaken the read."""
        for _ in range(_MOST_OVERTAKEN):
            with suppress(Overtaken):
                return await self.reads.finish(begin(self.machine.store), keys)
        raise KvError(*COMPACTED)

    async def put(self, request: PutRequest, request_id: UUID | None = None) -> PutResponse:
        check_put(request)
        return await self._executed(PutResponse, request, request_id)

    async def delete_range(self, request: DeleteRangeRequest, request_id: UUID | None = None) -> DeleteRangeResponse:
        check_delete_range(request)
        return await self._executed(DeleteRangeResponse, request, request_id)

    async def txn(self, request: TxnRequest, request_id: UUID | None = None) -> TxnResponse:
        """A transaction that only reads needs no record in the log."""
        check_txn(request)
        reads = _reads(request)
        if reads is None:
            return await self._executed(TxnResponse, request, request_id)
        if not reads or not all(read.serializable for read in reads):
            await self.barrier()

        def begin(store: Store) -> Steps[TxnResponse]:
            return read_txn(store, self.header(store.revision), request)

        keys = sum(_keys(self.machine.store, read) for read in reads) + len(request.compare) * KEYS_PER_UNIT
        return await self._in_pieces(begin, keys)

    async def compact(self, request: CompactionRequest, request_id: UUID | None = None) -> CompactionResponse:
        return await self._executed(CompactionResponse, request, request_id)

    async def lease_grant(self, request: LeaseGrantRequest, request_id: UUID | None = None) -> LeaseGrantResponse:
        while not request.id:
            request = attrs.evolve(request, id=self._random_bits(63))
        return await self._executed(LeaseGrantResponse, request, request_id)

    async def lease_revoke(self, request: LeaseRevokeRequest, request_id: UUID | None = None) -> LeaseRevokeResponse:
        return await self._executed(LeaseRevokeResponse, request, request_id)

    async def lease_keep_alive(
        self, request: LeaseKeepAliveRequest, request_id: UUID | None = None
    ) -> LeaseKeepAliveResponse:
        return await self._executed(LeaseKeepAliveResponse, request, request_id)

    async def lease_time_to_live(
        self, request: LeaseTimeToLiveRequest, _: UUID | None = None
    ) -> LeaseTimeToLiveResponse:
        await self.barrier()
        leases = self.machine.leases
        lease = leases.get(request.id)
        if lease is None:
            return LeaseTimeToLiveResponse(self.header(), request.id, ttl=-1)
        header, remaining_s = self.header(), leases.remaining_s(lease)
        keys: list[bytes] = []
        if request.keys:
            keys = await self.reads.finish(leases.sorted_keys(lease.id), len(lease.keys))
        return LeaseTimeToLiveResponse(header, lease.id, remaining_s, lease.ttl_s, tuple(keys))

    async def lease_leases(self, _: object = None, __: UUID | None = None) -> LeaseLeasesResponse:
        await self.barrier()
        header, ids = self.header(), self.machine.leases.ids()
        statuses: list[LeaseStatus] = await self.reads.finish(_statuses(ids), len(ids))
        return LeaseLeasesResponse(header, tuple(statuses))

    async def alarm(self, request: AlarmRequest, request_id: UUID | None = None) -> AlarmResponse:
        """List the alarms, raise one or disarm one."""
        if request.action is AlarmAction.GET:
            await self.barrier()
            return AlarmResponse(self.header(), self.machine.space.alarms)
        if request.alarm is not AlarmType.NOSPACE:
            raise KvError(Code.INVALID_ARGUMENT, f"alarm: {request.alarm.name} given, NOSPACE expected")
        return await self._executed(AlarmResponse, request, request_id)


def _keys(store: Store, request: RangeRequest) -> int:
    """How many keys a range may look at."""
    if not request.range_end:
        return 1
    keys = store.count(Interval.of(request.key, request.range_end))
    return min(keys, request.limit) if request.limit > 0 else keys


def _statuses(ids: list[int]) -> Steps[list[LeaseStatus]]:
    statuses: list[LeaseStatus] = []
    for start in range(0, len(ids), KEYS_PER_PIECE):
        statuses += map(LeaseStatus, ids[start : start + KEYS_PER_PIECE])
        yield
    return statuses


def _reads(request: TxnRequest) -> list[RangeRequest] | None:
    """The ranges of a transaction that only reads; None if it may change something."""
    reads: list[RangeRequest] = []
    for operation in (*request.success, *request.failure):
        nested = _reads_of(operation)
        if nested is None:
            return None
        reads += nested
    return reads


def _reads_of(operation: RequestOp) -> list[RangeRequest] | None:
    if operation.request_range is not None:
        return [operation.request_range]
    return None if operation.request_txn is None else _reads(operation.request_txn)
