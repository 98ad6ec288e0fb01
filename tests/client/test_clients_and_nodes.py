"""The clients against whole nodes: appends and reads across a change of the leader, each value once and in order."""

from __future__ import annotations

import random

import trio
from trio.testing import MockClock

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.log_client import LogClient
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.protocol.types import Endpoint
from tests.support.cluster import Cluster, endpoint_of

CLIENT = Endpoint("client", 1)


async def test_appends_and_reads_survive_the_leader(autojump_clock: MockClock) -> None:
    cluster = Cluster()
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

    with trio.fail_after(300):
        async with cluster.running():
            network = cluster.network.seen_from(CLIENT)
            bootstrap = [endpoint_of(id) for id in cluster.voter_ids]
            first = await cluster.wait_for_leader()
            async with LogClient(
                bootstrap, topic_name=first.config.topic_name, network=network, random_source=random.Random(3)
            ) as client:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(append, client)
                    nursery.start_soon(read, client)
                    await trio.sleep(1)
                    cluster.kill(first.key.id)
            answer = await AdminClient(bootstrap, network=network).describe_quorum()
    assert seen == values
    assert offsets == sorted(set(offsets))
    assert isinstance(answer, QuorumDescription)
    assert answer.leader_id != first.key.id
    assert {state.key.id for state in answer.voters} == set(cluster.voter_ids)
