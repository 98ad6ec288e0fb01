"""The quota of the store: what it may hold, and what a request adds to it.

The quota is part of the state, and the leader sets it through the log.  So all replicas refuse the same commands, even
if their nodes are configured differently.  As in etcd, the first command that would exceed it raises the alarm NOSPACE.
While there is an alarm, all commands that need space are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from kraft_trio.kv.budget import VERSION_BYTES
from kraft_trio.kv.errors import NO_SPACE, KvError
from kraft_trio.kv.requests import AlarmType, PutRequest, RequestOp, TxnRequest
from kraft_trio.kv.responses import AlarmMember

DEFAULT_QUOTA_BYTES: Final = 2 * 1024 * 1024 * 1024
"""That of etcd."""
LEASE_COST: Final = 512
"""Bytes of a lease without its keys."""


@attrs.define
class Space:
    """The quota in force, and whether the store was full since the last disarm."""

    quota_bytes: int = DEFAULT_QUOTA_BYTES
    """0 is no quota."""
    is_full: bool = False

    def check(self, used: int, cost: int) -> None:
        """Refuse a command that needs more space than there is, and raise the alarm.  Raises KvError."""
        if not cost:
            return
        if self.quota_bytes and used + cost > self.quota_bytes:
            self.is_full = True
        if self.is_full:
            raise KvError(*NO_SPACE)

    @property
    def alarms(self) -> tuple[AlarmMember, ...]:
        """The alarm of the store, which belongs to no member."""
        return (AlarmMember(alarm=AlarmType.NOSPACE),) if self.is_full else ()


def put_cost(request: PutRequest) -> int:
    """Bytes that a put adds, if its value is not one that is kept."""
    return len(request.key) + len(request.value) + VERSION_BYTES


def txn_cost(request: TxnRequest) -> int:
    """Bytes that the larger branch of a transaction puts; it must have been checked."""
    return max(_cost(request.success), _cost(request.failure))


def _cost(operations: Iterable[RequestOp]) -> int:
    cost = 0
    for one in operations:
        if one.request_put is not None:
            cost += put_cost(one.request_put)
        elif one.request_txn is not None:
            cost += txn_cost(one.request_txn)
    return cost
