"""Clients of the gateways while nodes are killed and cut off: writes happen once, and reads see all of them."""

from __future__ import annotations

import attrs
import pytest
import trio

from kraft_trio.protocol.request_ids import new_request_id
from kraft_trio.simulation import Cluster, Setup
from tests.kv.gateways import Gateways, b64, gateways, kv_setup
from tests.support.on_cluster import run_on_cluster

KEY = b64("counter")
ATTEMPT_S = 3.0


@attrs.define
class Counter:
    """A key that is only ever put, so that its version counts the puts."""

    begun: int = 0
    done: int = 0
    reads: int = 0


async def _write(serving: Gateways, counter: Counter, number: int, writes: int) -> None:
    """Put again and again, each time with the same id on one node after another until one says that it is done."""
    chance = serving.cluster.random(f"writer-{number}")
    for _ in range(writes):
        wall_ms = serving.cluster.machines[1].wall_clock_ms()
        headers = {"Kraft-Request-Id": str(new_request_id(wall_ms, chance.getrandbits(74)))}
        counter.begun += 1
        while True:
            client = serving.clients[chance.choice(list(serving.cluster.nodes) or [1])]
            with trio.move_on_after(ATTEMPT_S):
                status, answer = await client.post("/v3/kv/put", {"key": KEY}, headers)
                if status == 200:
                    break
                assert answer["code"] == 14, answer
            await trio.sleep(chance.random())
        counter.done += 1
        await trio.sleep(chance.random() / 4)


async def _read(serving: Gateways, counter: Counter, number: int) -> None:
    chance = serving.cluster.random(f"reader-{number}")
    while True:
        await trio.sleep(chance.random() / 4)
        client = serving.clients[chance.choice(list(serving.cluster.nodes) or [1])]
        least = counter.done
        with trio.move_on_after(ATTEMPT_S):
            status, answer = await client.post("/v3/kv/range", {"key": KEY})
            if status == 200:
                version = int(answer["kvs"][0]["version"]) if answer.get("kvs") else 0
                assert least <= version <= counter.begun, "a read misses a put that was done before, or sees one twice"
                counter.reads += 1


async def _harm(serving: Gateways) -> None:
    """Kill or cut off one node after another."""
    cluster = serving.cluster
    chance = cluster.random("harm")
    while True:
        await trio.sleep(1 + 3 * chance.random())
        node_id = chance.choice([1, 2, 3])
        if chance.random() < 0.5:
            cluster.partition([node_id], [other for other in (1, 2, 3) if other != node_id])
            await trio.sleep(4 * chance.random())
            cluster.heal()
        else:
            machine = cluster.machines[node_id]
            machine.kill()
            await machine.wait_until_ended()
            await trio.sleep(2 * chance.random())
            await machine.start()
            if machine.node is not None:
                serving.start(node_id)


async def _everybody(cluster: Cluster, writes: int) -> None:
    counter = Counter()
    async with gateways(cluster) as serving, trio.open_nursery() as everybody:
        everybody.start_soon(_harm, serving)
        for number in range(2):
            everybody.start_soon(_read, serving, counter, number)
        async with trio.open_nursery() as writers:
            for number in range(3):
                writers.start_soon(_write, serving, counter, number, writes)
        assert counter.reads
        everybody.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("first", "seeds", "writes"), [(1, 1, 20), pytest.param(100, 40, 40, marks=pytest.mark.nightly)]
)
def test_puts_happen_once_and_reads_see_them(first: int, seeds: int, writes: int) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "3000"}
    for seed in range(first, first + seeds):
        setup = Setup(**kv_setup(seed=seed, settings=settings))

        async def everybody(cluster: Cluster) -> None:
            await _everybody(cluster, writes)

        run_on_cluster(everybody, setup)
