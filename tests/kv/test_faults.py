"""Clients of the gateways under faults and changes of the voters: writes happen once, and reads see all of them."""

from __future__ import annotations

import attrs
import pytest
import trio

from kraft_trio.kv.range_reads import read_range
from kraft_trio.kv.requests import RangeRequest
from kraft_trio.protocol.request_ids import new_request_id
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.script.catalog import parse_step
from tests.kv.gateways import Gateways, KvMachines, b64, gateways, kv_setup
from tests.support.on_cluster import run_on_cluster

KEY = b64("counter")
ATTEMPT_S = 1.0
DRIFT_PPM = 50_000


@attrs.define
class Counter:
    """A key that is only ever put, so that its version counts the puts."""

    begun: int = 0
    done: int = 0
    reads: int = 0
    faults: set[object] = attrs.field(factory=set)
    """Those that have happened."""


async def _write(serving: Gateways, counter: Counter, number: int, writes: int) -> None:
    """Put so many times and until every fault has happened, each put with one id until a node says that it is done."""
    chance = serving.cluster.random(f"writer-{number}")
    while writes > 0 or counter.faults < set(FAULTS):
        writes -= 1
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


async def _cut_off(serving: Gateways, node_id: int, lasts_s: float) -> None:
    serving.cluster.partition([node_id], [other for other in (1, 2, 3) if other != node_id])
    await trio.sleep(lasts_s)
    serving.cluster.heal()


async def _kill(serving: Gateways, node_id: int, lasts_s: float) -> None:
    machine = serving.cluster.machines[node_id]
    machine.kill()
    await machine.wait_until_ended()
    await trio.sleep(lasts_s)
    await machine.start()
    if machine.node is not None:
        serving.start(node_id)


async def _pause(serving: Gateways, node_id: int, lasts_s: float) -> None:
    machine = serving.cluster.machines[node_id]
    machine.pause()
    await trio.sleep(lasts_s)
    machine.resume()


async def _transfer(serving: Gateways, node_id: int, lasts_s: float) -> None:
    await parse_step(f"transfer {node_id}").take(serving.cluster)
    await trio.sleep(lasts_s)


async def _remove_and_add(serving: Gateways, node_id: int, lasts_s: float) -> None:
    await parse_step(f"remove-voter {node_id}").take(serving.cluster)
    await trio.sleep(lasts_s)
    await parse_step(f"add-voter {node_id}").take(serving.cluster)


FAULTS = (_cut_off, _kill, _pause, _transfer, _remove_and_add)


async def _harm(serving: Gateways, counter: Counter) -> None:
    """One fault after another, while the nodes' clocks drift."""
    cluster = serving.cluster
    chance = cluster.random("harm")
    for machine in cluster.machines.values():
        machine.clock_drift = chance.uniform(-DRIFT_PPM, DRIFT_PPM) / 1e6
    while True:
        await trio.sleep(1 + 3 * chance.random())
        fault = chance.choice([fault for fault in FAULTS if fault not in counter.faults] or FAULTS)
        await fault(serving, chance.choice([1, 2, 3]), 4 * chance.random())
        counter.faults.add(fault)


async def _everybody(cluster: Cluster, writes: int) -> None:
    counter = Counter()
    async with gateways(cluster) as serving, trio.open_nursery() as everybody:
        everybody.start_soon(_harm, serving, counter)
        for number in range(2):
            everybody.start_soon(_read, serving, counter, number)
        async with trio.open_nursery() as writers:
            for number in range(3):
                writers.start_soon(_write, serving, counter, number, writes)
        assert counter.reads
        everybody.cancel_scope.cancel()
    cluster.heal()
    for machine in cluster.machines.values():
        machine.resume()
        if machine.node is None:
            await machine.wait_until_ended()
            await machine.start()
    await cluster.wait_until_alike()
    machines = cluster.setup.state_machine
    assert isinstance(machines, KvMachines)
    for store in [machine.store for machine in machines.of.values()]:
        (found,) = read_range(store, RangeRequest(b"counter")).kvs
        assert found.version == counter.done, "each put counts once, however often it was sent"


@pytest.mark.parametrize(
    ("first", "seeds", "writes"), [(1, 1, 25), pytest.param(100, 40, 40, marks=pytest.mark.nightly)]
)
def test_puts_happen_once_and_reads_see_them(first: int, seeds: int, writes: int) -> None:
    """With every second seed, leaders have leases, so that they read without a round trip."""
    for seed in range(first, first + seeds):
        lease_ppm = DRIFT_PPM if seed % 2 else -1
        settings = {
            "metadata.log.max.record.bytes.between.snapshots": "3000",
            "kraft.read.lease.max.clock.drift.ppm": str(lease_ppm),
        }

        async def everybody(cluster: Cluster) -> None:
            await _everybody(cluster, writes)

        run_on_cluster(everybody, Setup(**kv_setup(seed=seed, settings=settings)))
