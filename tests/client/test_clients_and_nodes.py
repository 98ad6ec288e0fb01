"""The clients against whole nodes: appends and reads across a change of the leader, each value once and in order."""

from __future__ import annotations

import trio

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.log_client import LogClient
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.simulation import Cluster
from kraft_trio.storage.batches.batch import NewRecord
from tests.support.on_cluster import on_cluster


@on_cluster(voters=1)
async def test_keys_and_headers_come_back(cluster: Cluster) -> None:
    written = [
        NewRecord(b"1", b"key", (("header", b"x"), ("nothing", None))),
        b"value alone",
        NewRecord(None, b"key", timestamp_ms=7),
    ]
    await cluster.wait_for_leader()
    async with cluster.client("log") as client:
        offsets = await client.produce(written)
        read = [record async for record in client.read(offsets[0], until=offsets[-1] + 1)]
    assert [(r.offset, r.key, r.value, r.headers) for r in read] == [
        (offsets[0], b"key", b"1", (("header", b"x"), ("nothing", None))),
        (offsets[1], None, b"value alone", ()),
        (offsets[2], b"key", None, ()),
    ]
    assert read[2].timestamp_ms == 7


@on_cluster()
async def test_appends_and_reads_survive_the_leader(cluster: Cluster) -> None:
    values = [b"%d" % number for number in range(40)]
    offsets: list[int] = []
    seen: list[bytes | None] = []

    async def append(client: LogClient) -> None:
        for value in values:
            offsets.extend(await client.produce([value], timeout_ms=60_000))
            await trio.sleep(0.1)

    async def read(client: LogClient) -> None:
        async for record in client.read(0):
            seen.append(record.value)
            if len(seen) == len(values):
                return

    first = await cluster.wait_for_leader()
    async with cluster.client("log") as client, trio.open_nursery() as nursery:
        nursery.start_soon(append, client)
        nursery.start_soon(read, client)
        await trio.sleep(1)
        cluster.machines[first.key.id].kill()
    bootstrap = [cluster.endpoint_of(id) for id in cluster.voter_ids]
    answer = await AdminClient(bootstrap, network=cluster.network.seen_from("client-admin")).describe_metadata_quorum()
    assert seen == values
    assert offsets == sorted(set(offsets))
    assert isinstance(answer, QuorumDescription)
    assert answer.leader_id != first.key.id
    assert {state.key.id for state in answer.voters} == set(cluster.voter_ids)
