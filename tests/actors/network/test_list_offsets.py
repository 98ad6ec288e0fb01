"""ListOffsets by time: searches of the log wait for each other, because each holds a batch and decodes its records."""

from __future__ import annotations

from unittest.mock import patch

import trio

from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import LIST_OFFSETS
from kraft_trio.wire.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import CLIENT, TOPIC, RawClient, batch_of

CLIENTS = 8
LONG_S = 0.1
"""What a search of large batches takes."""
LATE_MS = 2**41
"""Later than any record of the quorum's own."""


@on_cluster(voters=1)
async def test_one_search_of_the_log_is_under_way_at_a_time(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    time_ms = LATE_MS
    async with RawClient.connected(cluster, 1) as client:
        appended = await client.produce(batch_of(b"value", timestamp_ms=time_ms))
        assert appended.error == ErrorCode.none
    under_way, most = 0, 0
    search = leader.log.offset_for_timestamp

    async def counted(timestamp_ms: int) -> tuple[int, int] | None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            await trio.sleep(LONG_S)
            return await search(timestamp_ms)
        finally:
            under_way -= 1

    answered: list[str] = []

    async def ask(host: str) -> None:
        async with RawClient.connected(cluster, 1, host=host) as client:
            request = ListOffsetsRequest((ListOffsetsPartition(TOPIC, 0, time_ms),))
            [answer] = (await client.ask(LIST_OFFSETS, request)).partitions
            assert (answer.error, answer.offset, answer.timestamp_ms) == (ErrorCode.none, appended.base_offset, time_ms)
            answered.append(host)

    with patch.object(leader.log, "offset_for_timestamp", counted):
        async with trio.open_nursery() as nursery:
            for host in (CLIENT,) * CLIENTS + ("other",):
                nursery.start_soon(ask, host)
                await trio.sleep(LONG_S / 100)
    assert most == 1
    assert answered.index("other") <= 2, "one address kept another one waiting for all its searches"
