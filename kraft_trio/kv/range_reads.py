"""Reading a range: at a revision, filtered, sorted and limited, in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, cast, overload

from kraft_trio.kv.budget import KEYS_PER_PIECE, Budget, Steps, run_at_once
from kraft_trio.kv.errors import EMPTY_KEY, KvError
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.pieces import sorted_in_pieces
from kraft_trio.kv.requests import RangeRequest, SortOrder, SortTarget
from kraft_trio.kv.responses import KeyValue, RangeResponse, ResponseHeader
from kraft_trio.kv.store import Store

_SORT_KEYS: Final = {
    SortTarget.KEY: attrgetter("key"),
    SortTarget.VERSION: attrgetter("version"),
    SortTarget.CREATE: attrgetter("create_revision"),
    SortTarget.MOD: attrgetter("mod_revision"),
    SortTarget.VALUE: attrgetter("value"),
}


def read_range(store: Store, request: RangeRequest) -> RangeResponse:
    """Answer a range from the store as it is, in one turn, with a header that has only the revision.

    Raises KvError.
    """
    header = ResponseHeader(revision=store.revision)
    return run_at_once(range_in_pieces(store, request, store.revision, Budget.without_limits(), header))


def range_in_pieces(
    store: Store, request: RangeRequest, revision: int | None, budget: Budget, header: ResponseHeader
) -> Steps[RangeResponse]:
    """Answer a range at the request's revision, or else at the given one.

    It looks only at keys that it may return, and counts the others.  Raises KvError and Overtaken.
    """
    if not request.key:
        raise KvError(*EMPTY_KEY)
    interval = Interval.of(request.key, request.range_end)
    if request.revision > 0:
        store.check_readable(request.revision)
        revision = request.revision
    count = store.count(interval) if store.is_newest(revision) else None
    if request.count_only and count is not None:
        return RangeResponse(header, count=count)
    wanted = _wanted(request)
    looked_at = 0
    kvs: list[KeyValue] = []
    keys = KEYS_PER_PIECE if wanted is None or count is None else min(wanted, KEYS_PER_PIECE)
    descending = _is_by_key_from_the_end(request)
    for piece in store.pieces(interval, revision, budget, descending=descending, size=keys):
        looked_at += len(piece)
        if not request.count_only:
            kvs += [kv for kv in piece if _passes(kv, request)] if _has_filter(request) else piece
        if wanted is not None and len(kvs) >= wanted:
            del kvs[wanted:]
            if count is not None:
                break
        if budget.ends_piece:
            yield
    count = looked_at if count is None else count
    if request.sort_target is not SortTarget.KEY and not request.count_only:
        is_reverse = request.sort_order is SortOrder.DESCEND
        size = _value_size if request.sort_target is SortTarget.VALUE else None
        kvs = yield from sorted_in_pieces(kvs, _SORT_KEYS[request.sort_target], reverse=is_reverse, size=size)
    more = 0 < request.limit < len(kvs)
    if more:
        del kvs[request.limit :]
    if request.keys_only and not budget.is_limited:
        return RangeResponse(header, cast(Any, WithoutValues(kvs)) if kvs else (), more, count)
    if request.keys_only:
        kvs = yield from _without_values(kvs)
    budget.answer(kvs)
    return RangeResponse(header, tuple(kvs), more, count)


def _has_filter(request: RangeRequest) -> bool:
    return bool(
        request.min_mod_revision
        or request.max_mod_revision
        or request.min_create_revision
        or request.max_create_revision
    )


def _wanted(request: RangeRequest) -> int | None:
    """How many keys tell the answer; None if all of them may matter.  One more than the limit tells that it has more.

    A sort without an order sorts what the limit has left, as in etcd.
    """
    if request.limit <= 0 or _has_filter(request):
        return None
    is_by_key = request.sort_target is SortTarget.KEY
    return request.limit + 1 if is_by_key or request.sort_order is SortOrder.NONE else None


def _is_by_key_from_the_end(request: RangeRequest) -> bool:
    return request.sort_target is SortTarget.KEY and request.sort_order is SortOrder.DESCEND


def _value_size(kv: KeyValue) -> int:
    return len(kv.value)


class WithoutValues(Sequence[KeyValue]):
    """Versions whose values are left out when they are looked at: a copy of each takes ten times as much memory."""

    def __init__(self, kvs: Sequence[KeyValue]) -> None:
        self._kvs = kvs

    def __len__(self) -> int:
        return len(self._kvs)

    @overload
    def __getitem__(self, index: int) -> KeyValue: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[KeyValue]: ...
    def __getitem__(self, index: int | slice) -> KeyValue | Sequence[KeyValue]:
        found = self._kvs[index]
        return _without_value(found) if isinstance(found, KeyValue) else WithoutValues(found)

    def __iter__(self) -> Iterator[KeyValue]:
        return map(_without_value, self._kvs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def _without_value(kv: KeyValue) -> KeyValue:
    return KeyValue(kv.key, kv.create_revision, kv.mod_revision, kv.version, b"", kv.lease)


def _without_values(kvs: list[KeyValue]) -> Steps[list[KeyValue]]:
    keys: list[KeyValue] = []
    for start in range(0, len(kvs), KEYS_PER_PIECE):
        keys += map(_without_value, kvs[start : start + KEYS_PER_PIECE])
        yield
    return keys


def _passes(kv: KeyValue, request: RangeRequest) -> bool:
    return (
        request.min_mod_revision <= kv.mod_revision
        and request.min_create_revision <= kv.create_revision
        and (not request.max_mod_revision or kv.mod_revision <= request.max_mod_revision)
        and (not request.max_create_revision or kv.create_revision <= request.max_create_revision)
    )
