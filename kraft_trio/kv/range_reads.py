"""Reading a range: at a revision, filtered, sorted and limited."""

from __future__ import annotations

from itertools import islice
from operator import attrgetter
from typing import Final

import attrs

from kraft_trio.kv.errors import EMPTY_KEY, KvError
from kraft_trio.kv.intervals import Interval
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


def read_range(store: Store, request: RangeRequest, header: ResponseHeader | None = None) -> RangeResponse:
    """Answer a range from the store as it is, by default with a header that has only the revision.  Raises KvError."""
    if not request.key:
        raise KvError(*EMPTY_KEY)
    if header is None:
        header = ResponseHeader(revision=store.revision)
    interval = Interval.of(request.key, request.range_end)
    if request.revision > 0:
        store.check_readable(request.revision)
        found = store.at(interval, request.revision)
    else:
        found = store.present(interval)
    if request.count_only:
        return RangeResponse(header, count=sum(1 for _ in found))
    all_kvs = list(found)
    kvs = _sorted([kv for kv in all_kvs if _passes(kv, request)], request)
    more = 0 < request.limit < len(kvs)
    if more:
        kvs = list(islice(kvs, request.limit))
    if request.keys_only:
        kvs = [attrs.evolve(kv, value=b"") for kv in kvs]
    return RangeResponse(header, tuple(kvs), more, len(all_kvs))


def _passes(kv: KeyValue, request: RangeRequest) -> bool:
    return (
        request.min_mod_revision <= kv.mod_revision
        and request.min_create_revision <= kv.create_revision
        and (not request.max_mod_revision or kv.mod_revision <= request.max_mod_revision)
        and (not request.max_create_revision or kv.create_revision <= request.max_create_revision)
    )


def _sorted(kvs: list[KeyValue], request: RangeRequest) -> list[KeyValue]:
    """Sort what is sorted by key; equal ones stay in this order."""
    if request.sort_order is SortOrder.DESCEND:
        return sorted(kvs, key=_SORT_KEYS[request.sort_target], reverse=True)
    if request.sort_target is SortTarget.KEY:
        return kvs
    return sorted(kvs, key=_SORT_KEYS[request.sort_target])
