"""The table of requests in a snapshot, which builds whose tables trust times may have written, or may read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgpack
import pytest

from kraft_trio.application.request_records import load_requests, request_records
from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.protocol.request_ids import new_request_id
from kraft_trio.protocol.request_table import AppliedRequest, RequestTable
from kraft_trio.storage.batches.batch import NewRecord, Record

REQUEST = AppliedRequest(new_request_id(1000, 1), 1001, b"outcome")
OLD = [
    NewRecord(msgpack.packb([1, 999]), headers=(("kraft.requests", b"1"),)),
    NewRecord(msgpack.packb([REQUEST.request_id.bytes, 1001, b"outcome"], use_bin_type=True)),
    NewRecord(b"own"),
]
"""What builds wrote whose tables trusted times."""


def records_of(table: RequestTable) -> list[NewRecord]:
    given = request_records(table, [NewRecord(b"own")])
    return [one if isinstance(one, NewRecord) else NewRecord(one) for one in given]


async def loaded(records: list[NewRecord]) -> tuple[RequestTable, list[bytes | None]]:
    async def read() -> AsyncIterator[Record]:
        for offset, one in enumerate(records):
            yield Record(offset, 0, one.key, one.value, one.headers)

    table, own = await load_requests(read())
    return table, [record.value async for record in own]


async def test_a_table_of_an_older_build_trusts_times_as_before() -> None:
    table, own = await loaded(OLD)
    assert (list(table), table.floor_ms, table.ahead_ms, own) == ([REQUEST], 999, None, [b"own"])
    assert records_of(table) == OLD


@pytest.mark.parametrize(("ahead_ms", "version"), [(0, 1), (5000, 2)])
async def test_an_older_build_reads_it_until_a_clock_was_ahead(ahead_ms: int, version: int) -> None:
    """It looks at the first header and the version only; a version that it does not know ends it."""
    records = records_of(RequestTable([REQUEST], 999, ahead_ms=ahead_ms))
    assert records[0].headers[0] == OLD[0].headers[0]
    assert msgpack.unpackb(records[0].value or b"") == [version, 999]
    assert records[1:] == OLD[1:]
    table, own = await loaded(records)
    assert (list(table), table.floor_ms, table.ahead_ms, own) == ([REQUEST], 999, ahead_ms, [b"own"])


@pytest.mark.parametrize("header", [b"", b"x"])
async def test_a_damaged_header_is_refused(header: bytes) -> None:
    first = NewRecord(OLD[0].value, headers=(*OLD[0].headers, ("kraft.requests.ahead", header)))
    with pytest.raises(CorruptSnapshotError, match="the table of requests cannot be read"):
        await loaded([first, *OLD[1:]])
