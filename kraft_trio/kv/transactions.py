"""Executing a transaction: compare, check, and then change everything or nothing."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import attrs

from kraft_trio.kv.budget import Budget, Steps
from kraft_trio.kv.changes import Changes
from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.range_reads import range_in_pieces
from kraft_trio.kv.requests import Compare, CompareResult, CompareTarget, RequestOp, TxnRequest
from kraft_trio.kv.responses import KeyValue, ResponseHeader, ResponseOp, TxnResponse
from kraft_trio.kv.store import Overtaken, Store

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

_FEW_OPERATIONS: Final = 64
_WORK_PER_OPERATION: Final = 4
"""An operation takes about as long as to look at so many keys."""


@attrs.frozen
class _Branch:
    """The branch that a transaction takes, with the branches of the transactions in it."""

    succeeded: bool
    operations: tuple[RequestOp | _Branch, ...]


def is_short_txn(request: TxnRequest) -> bool:
    """Whether a transaction has few operations, each of one key."""
    operations = (*request.success, *request.failure)
    return len(request.compare) + len(operations) <= _FEW_OPERATIONS and not (
        any(compare.range_end for compare in request.compare) or any(map(_may_be_long, operations))
    )


def _may_be_long(operation: RequestOp) -> bool:
    ranges = (operation.request_range, operation.request_delete_range)
    return operation.request_txn is not None or any(one is not None and one.range_end for one in ranges)


@attrs.frozen
class View:
    """What a transaction reads: the newest state, which it may change, or with `changes` None that at a revision."""

    store: Store
    revision: int | None
    budget: Budget
    changes: Changes | None = None

    @property
    def header(self) -> ResponseHeader:
        return ResponseHeader(revision=self.store.newest_revision if self.revision is None else self.revision)


def execute_txn(changes: Changes, request: TxnRequest) -> Steps[TxnResponse]:
    """Execute a transaction that may change the store, and was checked.

    All comparisons, nested ones too, see the store before the transaction.  Raises KvError for a transaction that may
    not be executed, or costs too much; then its changes must be undone.
    """
    return _run(View(changes.store, None, changes.budget, changes), request)


def read_txn(store: Store, header: ResponseHeader, request: TxnRequest) -> Steps[TxnResponse]:
    """Execute a transaction that only reads and was checked, at the revision of the header, which is committed.

    Raises KvError and Overtaken.
    """
    response = yield from _run(View(store, header.revision, Budget()), request)
    if header.revision < store.compacted_revision:
        # A key that changed meanwhile may have looked absent.
        raise Overtaken
    return attrs.evolve(response, header=header)


def _run(view: View, request: TxnRequest) -> Steps[TxnResponse]:
    branch = yield from _branch(view, request)
    _check(view, branch)
    responses = yield from _execute(view, branch)
    return TxnResponse(view.header, branch.succeeded, responses)


def _branch(view: View, request: TxnRequest) -> Steps[_Branch]:
    succeeded = True
    for compare in request.compare:
        succeeded = yield from _holds(view, compare)
        if view.budget.ends_piece:
            yield
        if not succeeded:
            break
    operations: list[RequestOp | _Branch] = []
    for one in request.success if succeeded else request.failure:
        operations.append(one if one.request_txn is None else (yield from _branch(view, one.request_txn)))
    return _Branch(succeeded, tuple(operations))


def _holds(view: View, compare: Compare) -> Steps[bool]:
    field = _FIELD[compare.target]
    wanted = getattr(compare, field)
    holds = _HOLDS[compare.result]
    found = 0
    if compare.range_end:
        for piece in view.store.pieces(Interval.of(compare.key, compare.range_end), view.revision, view.budget):
            found += len(piece)
            for kv in piece:
                value = getattr(kv, field)
                if not holds(value, wanted):
                    return False
                if isinstance(value, bytes):
                    view.budget.compare(value, wanted)
                    if view.budget.ends_piece:
                        yield
            if view.budget.ends_piece:
                yield
    else:
        present = view.store.at(compare.key, view.revision)
        if present is not None:
            view.budget.work(1)
            value = getattr(present, field)
            if isinstance(value, bytes):
                view.budget.compare(value, wanted)
            return bool(holds(value, wanted))
    if found:
        return True
    # A key that does not exist has no value, which is not even unequal to another one.
    return compare.target is not CompareTarget.VALUE and bool(holds(getattr(KeyValue(), field), wanted))


def _check(view: View, branch: _Branch) -> None:
    for operation in branch.operations:
        if isinstance(operation, _Branch):
            _check(view, operation)
        elif operation.request_range is not None:
            if operation.request_range.revision > 0:
                view.store.check_readable(operation.request_range.revision)
        elif operation.request_put is not None:
            assert view.changes is not None, "a transaction that only reads"
            view.changes.check_put(operation.request_put)


def _execute(view: View, branch: _Branch) -> Steps[tuple[ResponseOp, ...]]:
    responses = []
    for operation in branch.operations:
        responses.append((yield from _execute_one(view, operation)))
        view.budget.work(_WORK_PER_OPERATION)
        if view.budget.ends_piece:
            yield
    return tuple(responses)


def _execute_one(view: View, operation: RequestOp | _Branch) -> Steps[ResponseOp]:
    if isinstance(operation, _Branch):
        responses = yield from _execute(view, operation)
        return ResponseOp(response_txn=TxnResponse(ResponseHeader(), operation.succeeded, responses))
    if operation.request_range is not None:
        found = yield from range_in_pieces(view.store, operation.request_range, view.revision, view.budget, view.header)
        return ResponseOp(response_range=found)
    assert view.changes is not None, "a transaction that only reads"
    if operation.request_put is not None:
        return ResponseOp(response_put=view.changes.put(operation.request_put))
    if operation.request_delete_range is not None:
        deleted = yield from view.changes.delete_range(operation.request_delete_range)
        return ResponseOp(response_delete_range=deleted)
    raise KvError(Code.INTERNAL, "an operation that was not checked")
