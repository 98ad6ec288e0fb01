"""The table of requests as the first records of a snapshot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Final
from uuid import UUID

import msgpack

from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.protocol.request_table import AppliedRequest, RequestTable
from kraft_trio.storage.batches.batch import NewRecord, Record

_MARK: Final = "kraft.requests"
"""The header of a snapshot's first record.  Its value is the number of requests, whose records follow."""
_AHEAD: Final = "kraft.requests.ahead"
"""A second header, of a table that no longer trusts times: its `ahead_ms`.  Readers of version 1 ignore the header."""
_VERSION: Final = 1
_VERSION_AHEAD: Final = 2
"""Written after a clock was ahead.  Readers of version 1 refuse it, because they would judge requests otherwise."""


def request_records(table: RequestTable, own: Iterable[NewRecord | bytes]) -> Iterator[NewRecord | bytes]:
    """The table as it is now, and then the state machine's own records."""
    applied = list(table)
    headers: tuple[tuple[str, bytes], ...] = ((_MARK, b"%d" % len(applied)),)
    if table.ahead_ms is not None:
        headers += ((_AHEAD, b"%d" % table.ahead_ms),)
    version = _VERSION_AHEAD if table.ahead_ms else _VERSION
    first = NewRecord(_packed(version, table.floor_ms), headers=headers)
    return _chained(first, applied, own)


def _chained(
    first: NewRecord, applied: list[AppliedRequest], own: Iterable[NewRecord | bytes]
) -> Iterator[NewRecord | bytes]:
    yield first
    for request in applied:
        yield _packed(request.request_id.bytes, request.timestamp_ms, request.outcome)
    yield from own


async def load_requests(records: AsyncIterator[Record]) -> tuple[RequestTable, AsyncIterator[Record]]:
    """Read the table, and return the records that follow it.

    A snapshot that does not begin with a table, because there was none when it was taken, gives an empty one.
    """
    first = await anext(records, None)
    if first is None:
        return RequestTable(), records
    if not first.headers or first.headers[0][0] != _MARK:
        return RequestTable(), _with_first(first, records)
    try:
        version, floor_ms = _unpacked(first)
        if version not in (_VERSION, _VERSION_AHEAD):
            raise ValueError(f"version {version} of the table, {_VERSION} or {_VERSION_AHEAD} expected")
        ahead = dict(first.headers).get(_AHEAD)
        ahead_ms = None if ahead is None else int(ahead)
        applied = [_applied_request(await anext(records, None)) for _ in range(int(first.headers[0][1] or b""))]
        _check("floor_ms", floor_ms, int)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise CorruptSnapshotError(f"the table of requests cannot be read: {error}") from error
    return RequestTable(applied, floor_ms, ahead_ms=ahead_ms), records


def _applied_request(record: Record | None) -> AppliedRequest:
    if record is None:
        raise ValueError("it ends too early")
    request_id, timestamp_ms, outcome = _unpacked(record)
    for name, value, cls in (("id", request_id, bytes), ("timestamp", timestamp_ms, int), ("outcome", outcome, bytes)):
        _check(name, value, cls)
    return AppliedRequest(UUID(bytes=request_id), timestamp_ms, outcome)


def _check(name: str, value: object, cls: type[object]) -> None:
    if type(value) is not cls:
        raise ValueError(f"{name}: {type(value).__name__} given, {cls.__name__} expected")


def _packed(*parts: object) -> bytes:
    data: bytes = msgpack.packb(parts, use_bin_type=True)
    return data


def _unpacked(record: Record) -> Any:
    return msgpack.unpackb(record.value or b"", raw=False)


async def _with_first(first: Record, records: AsyncIterator[Record]) -> AsyncIterator[Record]:
    yield first
    async for record in records:
        yield record
