"""Records that no state machine can decode: refused when produced, told when in the log, and passed over if named."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
import trio

from kraft_trio import Committed, NewRecord, RefusedError
from kraft_trio.kv import CommandSerde
from kraft_trio.kv.requests import PutRequest
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.world import World
from kraft_trio.status.health import liveness, readiness
from kraft_trio.status.own_view import own_view
from kraft_trio.storage.batches.batch import Compression, encode_batch
from kraft_trio.wire.error_codes import ErrorCode
from tests.kv.gateways import KvMachines, gateways, kv_setup
from tests.support.ledger import Ledger, Ledgers, restart_from_snapshots
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster
from tests.support.poison import poison
from tests.support.raw_client import RawClient, batch_of

PUT = CommandSerde().encode(PutRequest(b"key", b"value"))
BAD = b"kv\x01\xc1"


class Choosy(Ledger):
    """Takes from other clients only what it knows."""

    def accepts(self, record: Committed[bytes]) -> bool:
        assert record.offset == -1
        return record.value.startswith(b"+")


class ChoosyLedgers(Ledgers):
    def __call__(self, node_id: int) -> Ledger:
        self.of[node_id] = ledger = Choosy()
        return ledger


def keys_of(cluster: Cluster) -> list[int]:
    """How many keys the store of each node has."""
    machines = cluster.setup.state_machine
    assert isinstance(machines, KvMachines)
    return [machines.of[node_id].store.versions for node_id in cluster.nodes]


def problems_of(node: Node) -> list[str]:
    """Of its state machine."""
    [check] = [check for check in readiness(node.tree, ()) if check.name == "state-machine-applies"]
    return [] if check.problem is None else [check.problem]


async def all_have_stopped(cluster: Cluster) -> None:
    await cluster.wait_until(lambda: all(problems_of(node) for node in cluster.nodes.values()))


@pytest.mark.parametrize("bad", [BAD, b"kv\x01", b"kv\x01\x92\xcc\xfa\xc0", b"no command", b""])
@on_cluster(**kv_setup())
async def test_what_is_no_command_is_refused(cluster: Cluster, bad: bytes) -> None:
    """Also among commands.  Nothing of such a batch is in the log, and what follows is applied."""
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    async with RawClient.connected(cluster, leader.key.id) as client:
        for values in ([bad], [PUT, bad], [PUT] * 300 + [bad]):
            answer = await client.produce(batch_of(*values))
            assert answer.error == ErrorCode.invalid_record
            assert f"record {len(values) - 1} is no command" in (answer.error_message or "")
        assert leader.log.end_offset == end
        assert (await client.produce(batch_of(PUT, PUT))).error == ErrorCode.none
    assert values_in(leader) == [PUT, PUT]


@pytest.mark.parametrize("codec", Compression)
@on_cluster(voters=1, **kv_setup())
async def test_compression_hides_nothing(cluster: Cluster, codec: Compression) -> None:
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        for values, error in (([PUT] * 50 + [BAD], ErrorCode.invalid_record), ([PUT] * 50, ErrorCode.none)):
            batch = encode_batch([NewRecord(value) for value in values], timestamp_ms=0, compression=codec)
            assert (await client.produce(batch)).error == error


@on_cluster(voters=1, state_machine=Ledgers())
async def test_a_request_id_that_nobody_can_read_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    batch = encode_batch([NewRecord(b"x", headers=(("kraft.request", b"id"),))], timestamp_ms=0)
    async with RawClient.connected(cluster, leader.key.id) as client:
        answer = await client.produce(batch)
    assert answer.error == ErrorCode.invalid_record
    assert "expected a UUID of version 7" in (answer.error_message or "")


@on_cluster(state_machine=ChoosyLedgers())
async def test_an_embedder_chooses(cluster: Cluster) -> None:
    """Of what others produce, and of what the nodes themselves append."""
    leader = await cluster.wait_for_leader()
    async with RawClient.connected(cluster, leader.key.id) as client:
        answer = await client.produce(batch_of(b"-"))
        assert answer.error == ErrorCode.invalid_record
        assert "the state machine does not accept it" in (answer.error_message or "")
        assert (await client.produce(batch_of(b"+"))).error == ErrorCode.none
    for node in cluster.nodes.values():
        await node.execute(b"+")
    for node in cluster.nodes.values():
        with pytest.raises(RefusedError, match="does not accept"):
            await node.execute(b"-")
        with pytest.raises(RefusedError, match="does not accept"):
            await node.append([b"+", NewRecord(b"-")])
    assert values_in(leader) == [b"+"] * 4


@pytest.mark.parametrize("restarted", [False, True])
@on_cluster(**kv_setup())
async def test_a_node_tells_that_its_state_machine_has_stopped(cluster: Cluster, restarted: bool) -> None:
    leader = await cluster.wait_for_leader()
    assert problems_of(leader) == []
    assert leader.metrics.values()["state-machine-stopped"] == 0
    await leader.execute(PutRequest(b"a"))
    offset = await poison(leader, BAD)
    if restarted:
        for machine in cluster.machines.values():
            await machine.stop()
        for machine in cluster.machines.values():
            await machine.start()
        await cluster.wait_for_leader()
    await all_have_stopped(cluster)
    for node in cluster.nodes.values():
        [problem] = problems_of(node)
        assert f"stopped at offset {offset}: the record at offset {offset} cannot be decoded" in problem
        assert all(check.problem is None for check in liveness(node.tree)), "a restart would change nothing"
        assert node.metrics.values()["state-machine-stopped"] == 1
        view: dict[str, Any] = own_view(node.tree)
        assert f"the record at offset {offset} cannot be decoded" in view["stateMachineProblem"]
    assert keys_of(cluster) == [1, 1, 1]


@on_cluster(**kv_setup())
async def test_the_gateway_tells_it_too(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with gateways(cluster) as serving:
        for client in serving.clients.values():
            status, data = await client.raw("/health", None, method="GET")
            assert (status, json.loads(data)["health"]) == (200, "true")
        await poison(leader, BAD)
        await all_have_stopped(cluster)
        for client in serving.clients.values():
            status, data = await client.raw("/health", None, method="GET")
            assert (status, json.loads(data)["health"]) == (503, "false")


@on_cluster(**kv_setup())
async def test_a_named_record_is_passed_over_on_every_node(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes are restarted one by one with the setting.  Snapshots then need it no more."""
    leader = await cluster.wait_for_leader()
    await leader.execute(PutRequest(b"a"))
    offset = await poison(leader, PUT, BAD, PUT) + 1
    await all_have_stopped(cluster)
    real = World.config_of

    def config_of(world: World, node_id: int) -> Any:
        return attrs.evolve(real(world, node_id), skipped_offsets=(offset,))

    with monkeypatch.context() as patched:
        patched.setattr(World, "config_of", config_of)
        for machine in cluster.machines.values():
            await machine.stop()
            await machine.start()
            await cluster.wait_for_leader()
        leader = await cluster.wait_for_leader()
        with trio.fail_after(30):
            await leader.execute(PutRequest(b"b"))
        await restart_from_snapshots(cluster)
    for machine in cluster.machines.values():
        await machine.stop()
    for machine in cluster.machines.values():
        await machine.start()
    leader = await cluster.wait_for_leader()
    await leader.execute(PutRequest(b"c"))
    for node in cluster.nodes.values():
        await node.wait_until_applied(leader.log.end_offset - 1)
        assert problems_of(node) == []
    assert keys_of(cluster) == [5, 5, 5]


@on_cluster(**kv_setup())
async def test_a_named_record_that_can_be_decoded_stops_the_node(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version may have passed over it, so applying it here would make replicas differ without a word."""
    leader = await cluster.wait_for_leader()
    await leader.execute(PutRequest(b"a"))
    offset = leader.log.end_offset - 1
    real = World.config_of
    monkeypatch.setattr(
        World, "config_of", lambda world, node_id: attrs.evolve(real(world, node_id), skipped_offsets=(offset,))
    )
    for machine in cluster.machines.values():
        await machine.stop()
    for machine in cluster.machines.values():
        await machine.start()
    await all_have_stopped(cluster)
    for node in cluster.nodes.values():
        [problem] = problems_of(node)
        assert "can be decoded: kraft.state.machine.skip.offsets names it" in problem
    assert keys_of(cluster) == [0, 0, 0]
