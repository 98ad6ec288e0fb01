"""Clocks are wrong by hours or a year, and then put right: writes, request ids and leases work at once (S27).

The table of requests has few places here, so that it forgets what the wrong clocks have left.
"""

from __future__ import annotations

from functools import partial

import pytest
import trio

from kraft_trio import NewRecord
from kraft_trio.application import machine_adapter
from kraft_trio.application.machine_adapter import REQUEST_HEADER
from kraft_trio.kv import CommandSerde
from kraft_trio.kv.requests import PutRequest
from kraft_trio.protocol.request_ids import new_request_id
from kraft_trio.protocol.request_table import RequestLimits, RequestTable
from kraft_trio.simulation import Cluster, Setup
from tests.kv.gateways import Gateways, KvMachines, b64, gateways, kv_setup
from tests.simulation.mutants.snapshots import SETTINGS
from tests.support.ledger import restart_from_snapshots
from tests.support.on_cluster import run_on_cluster

pytestmark = pytest.mark.rotating(2)

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS
SOON_MS = 6 * 60 * 1000
TTL_S = 10
FEW = 3


class Writer:
    """Counts its writes, which all have one key."""

    def __init__(self, serving: Gateways) -> None:
        self.serving = serving
        self.done = 0

    async def write(self, node_id: int, wrong_by_ms: int = 0) -> None:
        """Put with a new id of a clock that is wrong by so much, on all nodes with such a clock: it is applied once."""
        cluster = self.serving.cluster
        request_id = new_request_id(_right_ms(cluster) + wrong_by_ms, self.done)
        headers = {"Kraft-Request-Id": str(request_id)}
        revisions = set()
        others = [machine.id for machine in cluster.machines.values() if machine.wall_clock_offset_ms == wrong_by_ms]
        for via in (node_id, *others):
            status, answer = await self.serving.clients[via].post("/v3/kv/put", {"key": b64("k")}, headers)
            assert status == 200, answer
            revisions.add(answer["header"]["revision"])
        assert len(revisions) == 1
        self.done += 1
        status, answer = await self.serving.clients[node_id].post("/v3/kv/range", {"key": b64("k")})
        assert int(answer["kvs"][0]["version"]) == self.done

    async def has_lease(self, node_id: int) -> bool:
        _, answer = await self.serving.clients[node_id].post("/v3/kv/range", {"key": b64("leased")})
        return bool(answer.get("kvs"))


def _right_ms(cluster: Cluster) -> int:
    """The time that clocks show which are right."""
    machine = cluster.machines[1]
    return machine.wall_clock_ms() - machine.wall_clock_offset_ms


async def _lease(serving: Gateways) -> None:
    status, _ = await serving.clients[1].post("/v3/lease/grant", {"ID": 7, "TTL": TTL_S})
    assert status == 200
    status, _ = await serving.clients[1].post("/v3/kv/put", {"key": b64("leased"), "lease": 7})
    assert status == 200


async def _while_wrong(writer: Writer, wrong: tuple[int, ...], by_ms: int) -> None:
    """The clients of the nodes whose clocks are wrong have wrong clocks as well, and those of the others do not."""
    for number in range(4 * FEW):
        node_id = 1 + number % 3
        await writer.write(node_id, by_ms if node_id in wrong else 0)


async def _by_a_client(writer: Writer, by_ms: int) -> None:
    """A Kafka client writes commands with request ids itself, and its clock is wrong."""
    cluster = writer.serving.cluster
    for number in range(4 * FEW):
        wrong_ms = _right_ms(cluster) + by_ms
        headers = ((REQUEST_HEADER, new_request_id(wrong_ms, number).bytes),)
        record = NewRecord(CommandSerde().encode(PutRequest(b"k")), headers=headers, timestamp_ms=wrong_ms)
        await cluster.nodes[1].append([record])
        writer.done += 1


@pytest.mark.parametrize(
    "by_ms",
    [
        pytest.param(DAY_MS, id="day"),
        *(
            pytest.param(by_ms, id=name, marks=pytest.mark.rotating(3))
            for name, by_ms in (("year", YEAR_MS), ("hours", 2 * HOUR_MS), ("behind", -DAY_MS))
        ),
    ],
)
@pytest.mark.parametrize("wrong", [(2,), (1, 2), (1, 2, 3), ()], ids=["minority", "majority", "all", "client"])
def test_all_works_once_clocks_are_right(wrong: tuple[int, ...], by_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = partial(RequestTable, limits=RequestLimits(max_requests=FEW))
    monkeypatch.setattr(machine_adapter, "RequestTable", table)

    async def test(cluster: Cluster) -> None:
        async with gateways(cluster) as serving:
            writer = Writer(serving)
            for node_id in (1, 2, 3, 1, 2):
                await writer.write(node_id)
            await _lease(serving)
            for node_id in wrong:
                cluster.machines[node_id].wall_clock_offset_ms = by_ms
            if wrong:
                await _while_wrong(writer, wrong, by_ms)
            else:
                await _by_a_client(writer, by_ms)
            await trio.sleep(TTL_S / 2)
            assert await writer.has_lease(1), "a clock has ended a lease"
            await serving.clients[1].post("/v3/lease/keepalive", {"ID": 7})
            for node_id in wrong:
                cluster.machines[node_id].wall_clock_offset_ms = 0
            for number in range(4 * FEW):
                await writer.write(1 + number % 3)
            await trio.sleep(TTL_S / 2)
            assert await writer.has_lease(1)
            await trio.sleep(TTL_S)
            assert not await writer.has_lease(1), "a clock keeps a lease alive"

    run_on_cluster(test, Setup(**kv_setup()))


@pytest.mark.parametrize("wrong", [(1, 2), (1, 2, 3)], ids=["majority", "all"])
def test_it_works_when_the_time_comes_that_they_showed(wrong: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    table = partial(RequestTable, limits=RequestLimits(max_requests=FEW))
    monkeypatch.setattr(machine_adapter, "RequestTable", table)

    async def test(cluster: Cluster) -> None:
        async with gateways(cluster) as serving:
            writer = Writer(serving)
            for node_id in wrong:
                cluster.machines[node_id].wall_clock_offset_ms = SOON_MS
            await _while_wrong(writer, wrong, SOON_MS)
            for node_id in wrong:
                cluster.machines[node_id].wall_clock_offset_ms = 0
            for number in range(25):
                await writer.write(1 + number % 3)
                await trio.sleep(20)

    run_on_cluster(test, Setup(**kv_setup()))


@pytest.mark.parametrize("wrong", [(1, 2), (1, 2, 3)], ids=["majority", "all"])
def test_a_snapshot_keeps_what_is_known_of_clocks(wrong: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes begin with snapshots of while the clocks were wrong, or of when they were right again."""
    table = partial(RequestTable, limits=RequestLimits(max_requests=FEW))
    monkeypatch.setattr(machine_adapter, "RequestTable", table)

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        ids = []

        async def write() -> None:
            for machine in cluster.machines.values():
                assert machine.node is not None
                ids.append(machine.node.new_request_id())
                await machine.node.execute(PutRequest(b"k"), ids[-1])

        for machine_id in wrong:
            cluster.machines[machine_id].wall_clock_offset_ms = DAY_MS
        for _ in range(FEW):
            await write()
        await restart_from_snapshots(cluster)
        await write()
        for machine_id in wrong:
            cluster.machines[machine_id].wall_clock_offset_ms = 0
        await write()
        await restart_from_snapshots(cluster)
        for _ in range(FEW):
            await write()
        node = await cluster.wait_for_leader()
        for other in cluster.nodes.values():
            await other.wait_until_applied(node.log.end_offset - 1)
        machines = cluster.setup.state_machine
        assert isinstance(machines, KvMachines)
        for store in (machine.store for machine in machines.of.values()):
            kv = store.get(b"k")
            assert kv is not None
            assert kv.version == len(ids)

    run_on_cluster(test, Setup(**kv_setup(settings=SETTINGS)))


def test_a_log_of_an_older_build_gives_the_same_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older builds refused requests once a clock had been ahead.  They stay refused when their log is read again."""
    table = partial(RequestTable, limits=RequestLimits(max_requests=FEW))
    monkeypatch.setattr(machine_adapter, "RequestTable", table)

    async def versions(cluster: Cluster) -> list[int]:
        node = await cluster.wait_for_leader()
        for other in cluster.nodes.values():
            await other.wait_until_applied(node.log.end_offset - 1)
        machines = cluster.setup.state_machine
        assert isinstance(machines, KvMachines)
        return [kv.version for machine in machines.of.values() if (kv := machine.store.get(b"k")) is not None]

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        for number, wrong_by_ms in enumerate([*[DAY_MS] * 2 * FEW, 0, 0]):
            at_ms = _right_ms(cluster) + wrong_by_ms
            headers = ((REQUEST_HEADER, new_request_id(at_ms, number).bytes),)
            await node.append([NewRecord(CommandSerde().encode(PutRequest(b"k")), headers=headers, timestamp_ms=at_ms)])
        assert await versions(cluster) == [2 * FEW] * 3
        await node.execute(PutRequest(b"k"), node.new_request_id())
        assert await versions(cluster) == [2 * FEW + 1] * 3
        for machine in cluster.machines.values():
            machine.kill()
            await machine.wait_until_ended()
            await machine.start()
        assert await versions(cluster) == [2 * FEW + 1] * 3

    run_on_cluster(test, Setup(**kv_setup()))
