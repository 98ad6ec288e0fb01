"""Refuses requests that no state of the store allows, before they are appended to the log."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kraft_trio.kv.budget import MAX_DEPTH, MAX_LISTED_OPERATIONS, MAX_OPERATIONS
from kraft_trio.kv.errors import (
    DUPLICATE_KEY,
    EMPTY_KEY,
    KEY_NOT_FOUND,
    LEASE_PROVIDED,
    SEVERAL_OPERATIONS,
    TOO_MANY_OPERATIONS,
    VALUE_PROVIDED,
    KvError,
)
from kraft_trio.kv.intervals import Interval, KeySet
from kraft_trio.kv.requests import DeleteRangeRequest, PutRequest, RequestOp, TxnRequest


def check_put(request: PutRequest) -> None:
    """Raises KvError."""
    if not request.key:
        raise KvError(*EMPTY_KEY)
    if request.ignore_value and request.value:
        raise KvError(*VALUE_PROVIDED)
    if request.ignore_lease and request.lease:
        raise KvError(*LEASE_PROVIDED)


def check_delete_range(request: DeleteRangeRequest) -> None:
    """Raises KvError."""
    if not request.key:
        raise KvError(*EMPTY_KEY)


def check_txn(request: TxnRequest) -> None:
    """Raises KvError for a transaction that is too large, lacks a key, or may change a key twice."""
    _check_operations(request, MAX_LISTED_OPERATIONS, MAX_DEPTH, MAX_OPERATIONS)
    for operations in (request.success, request.failure):
        if len(operations) > 1 or (operations and operations[0].request_txn is not None):
            _changes_of(operations)


def _check_operations(request: TxnRequest, listed: int, depth: int, left: int) -> int:
    """Check a transaction that may have so many operations in each list and `left` in all; return what it leaves."""
    largest = max(len(request.compare), len(request.success), len(request.failure))
    left -= len(request.compare) + len(request.success) + len(request.failure)
    if largest > listed or left < 0 or not depth:
        raise KvError(*TOO_MANY_OPERATIONS)
    for compare in request.compare:
        if not compare.key:
            raise KvError(*EMPTY_KEY)
    for operation in (*request.success, *request.failure):
        _check_single(operation)
        if operation.request_range is not None:
            if not operation.request_range.key:
                raise KvError(*EMPTY_KEY)
        elif operation.request_put is not None:
            check_put(operation.request_put)
        elif operation.request_delete_range is not None:
            check_delete_range(operation.request_delete_range)
        elif operation.request_txn is not None:
            left = _check_operations(operation.request_txn, listed - largest, depth - 1, left)
        else:
            raise KvError(*KEY_NOT_FOUND)
    return left


def _check_single(operation: RequestOp) -> None:
    fields = [operation.request_range, operation.request_put, operation.request_delete_range, operation.request_txn]
    if fields.count(None) < len(fields) - 1:
        raise KvError(*SEVERAL_OPERATIONS)


@attrs.define
class _Changes:
    """What operations may change: the keys that they put, and those that they delete."""

    puts: set[bytes] = attrs.field(factory=set)
    deletes: KeySet = attrs.field(factory=KeySet)

    def add_puts(self, keys: set[bytes]) -> None:
        if not self.puts.isdisjoint(keys) or any(key in self.deletes for key in keys):
            raise KvError(*DUPLICATE_KEY)
        self.puts |= keys


def _changes_of(operations: Sequence[RequestOp]) -> _Changes:
    """Raises KvError if a key may be put twice, or put and deleted, whatever the comparisons give."""
    changes = _Changes()
    for operation in operations:
        if operation.request_delete_range is not None:
            deleted = operation.request_delete_range
            changes.deletes.add(Interval.of(deleted.key, deleted.range_end))
    for operation in operations:
        if operation.request_txn is not None:
            branches = [
                _changes_of(branch) for branch in (operation.request_txn.success, operation.request_txn.failure)
            ]
            changes.add_puts(set().union(*(branch.puts for branch in branches)))
            for branch in branches:
                for interval in branch.deletes:
                    changes.deletes.add(interval)
    for operation in operations:
        if operation.request_put is not None:
            changes.add_puts({operation.request_put.key})
    return changes
