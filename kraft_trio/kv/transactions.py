"""Executing a transaction: compare, check, and then change everything or nothing."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import attrs

from kraft_trio.kv.changes import Changes
from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.range_reads import read_range
from kraft_trio.kv.request_checks import check_txn
from kraft_trio.kv.requests import Compare, CompareResult, CompareTarget, RequestOp, TxnRequest
from kraft_trio.kv.responses import KeyValue, ResponseHeader, ResponseOp, TxnResponse
from kraft_trio.kv.store import Store

_HOLDS: Final[dict[CompareResult, Callable[[Any, Any], bool]]] = {
    CompareResult.EQUAL: operator.eq,
    CompareResult.NOT_EQUAL: operator.ne,
    CompareResult.GREATER: operator.gt,
    CompareResult.LESS: operator.lt,
}
_FIELD: Final = {
    CompareTarget.VERSION: "version",
    CompareTarget.CREATE: "create_revision",
    CompareTarget.MOD: "mod_revision",
    CompareTarget.VALUE: "value",
    CompareTarget.LEASE: "lease",
}


@attrs.frozen
class _Branch:
    """The branch that a transaction takes, with the branches of the transactions in it."""

    succeeded: bool
    operations: tuple[RequestOp | _Branch, ...]


def execute_txn(changes: Changes, request: TxnRequest) -> TxnResponse:
    """Execute a transaction.  Raises KvError, before any change.

    All comparisons, nested ones too, see the store before the transaction.
    """
    check_txn(request)
    branch = _branch(changes.store, request)
    _check(changes, branch)
    responses = _execute(changes, branch)
    return TxnResponse(ResponseHeader(revision=changes.store.revision), branch.succeeded, responses)


def _branch(store: Store, request: TxnRequest) -> _Branch:
    succeeded = all(_holds(store, compare) for compare in request.compare)
    taken = request.success if succeeded else request.failure
    return _Branch(
        succeeded, tuple([one if one.request_txn is None else _branch(store, one.request_txn) for one in taken])
    )


def _holds(store: Store, compare: Compare) -> bool:
    field = _FIELD[compare.target]
    wanted = getattr(compare, field)
    holds = _HOLDS[compare.result]
    if compare.range_end:
        kvs = list(store.present(Interval.of(compare.key, compare.range_end)))
    else:
        kv = store.get(compare.key)
        kvs = [] if kv is None else [kv]
    if not kvs:
        # A key that does not exist has no value, which is not even unequal to another one.
        if compare.target is CompareTarget.VALUE:
            return False
        kvs = [KeyValue()]
    return all(holds(getattr(kv, field), wanted) for kv in kvs)


def _check(changes: Changes, branch: _Branch) -> None:
    for operation in branch.operations:
        if isinstance(operation, _Branch):
            _check(changes, operation)
        elif operation.request_range is not None:
            if operation.request_range.revision > 0:
                changes.store.check_readable(operation.request_range.revision)
        elif operation.request_put is not None:
            changes.check_put(operation.request_put)


def _execute(changes: Changes, branch: _Branch) -> tuple[ResponseOp, ...]:
    return tuple([_execute_one(changes, operation) for operation in branch.operations])


def _execute_one(changes: Changes, operation: RequestOp | _Branch) -> ResponseOp:
    if isinstance(operation, _Branch):
        responses = _execute(changes, operation)
        return ResponseOp(response_txn=TxnResponse(ResponseHeader(), operation.succeeded, responses))
    if operation.request_range is not None:
        return ResponseOp(response_range=read_range(changes.store, operation.request_range))
    if operation.request_put is not None:
        return ResponseOp(response_put=changes.put(operation.request_put))
    if operation.request_delete_range is not None:
        return ResponseOp(response_delete_range=changes.delete_range(operation.request_delete_range))
    raise KvError(Code.INTERNAL, "an operation that was not checked")
