"""The most expensive commands that the limits allow, and more: by the gateway, by Produce, and in a replayed log.

A turn of the event loop looks at some keys, whatever is asked; no node leads another epoch; all replicas do the same.
"""

from __future__ import annotations

from typing import Any

import attrs
import msgpack
import pytest
import trio

from kraft_trio.actors.waiting.loop_turns import LoopTurns
from kraft_trio.errors import CommandFailed
from kraft_trio.kv import KvMachine
from kraft_trio.kv.budget import KEYS_PER_PIECE, MAX_COMMAND_ITEMS, MAX_KEYS, Steps
from kraft_trio.kv.command_serde import PREFIX
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.leases import MAX_STEP_MS
from kraft_trio.kv.proto_json import dumps
from kraft_trio.kv.requests import (
    Advance,
    Command,
    CompactionRequest,
    Compare,
    CompareResult,
    DeleteRangeRequest,
    LeaseGrantRequest,
    LeaseRevokeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
)
from kraft_trio.kv.responses import Result
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster
from tests.kv.gateways import Gateways, KvMachines, b64, gateways, kv_setup
from tests.kv.looked_at import LookedAt, looked_at
from tests.kv.machines import saved
from tests.support.on_cluster import on_cluster

pytestmark = pytest.mark.rotating(4)

KEYS = 2 * KEYS_PER_PIECE + 52
VOTERS = 3
START, END = b"k", b"l"
FILTERED = RequestOp(request_range=RangeRequest(START, END, min_mod_revision=10**9))
NOTHING = Compare(CompareResult.NOT_EQUAL, key=START, range_end=END)
PUT = RequestOp(request_put=PutRequest(b"new"))
LOOKS = MAX_KEYS // KEYS
PATHS = {TxnRequest: "/v3/kv/txn", DeleteRangeRequest: "/v3/kv/deleterange", CompactionRequest: "/v3/kv/compaction"}


def nested(width: int, levels: int) -> tuple[RequestOp, ...]:
    one = (FILTERED,) * width
    for _ in range(levels):
        one = (RequestOp(request_txn=TxnRequest((), one)),) * width
    return one


ALLOWED: dict[str, Command] = {
    "ranges": TxnRequest((), (PUT, *(FILTERED,) * LOOKS)),
    "comparisons": TxnRequest((NOTHING,) * LOOKS, (PUT,)),
    "deletion in a transaction": TxnRequest((), (RequestOp(request_delete_range=DeleteRangeRequest(START, END)), PUT)),
    "deletion": DeleteRangeRequest(START, END),
    "compaction": CompactionRequest(KEYS),
    "lease": LeaseRevokeRequest(1),
}
REFUSED: dict[str, Command] = {
    "ranges": TxnRequest((), (PUT, *(FILTERED,) * 127)),
    "comparisons": TxnRequest((NOTHING,) * 127, (PUT,)),
    "nested transactions": TxnRequest((), (PUT, *nested(8, 4))),
}


async def fill(cluster: Cluster) -> Node[Any, Any]:
    leader = await cluster.wait_for_leader()
    await leader.append([LeaseGrantRequest(10**6, 1)])
    for start in range(0, KEYS, 525):
        keys = [b"%s%06d" % (START, number) for number in range(start, start + 525)]
        await leader.append([PutRequest(key, lease=1) for key in keys])
        await leader.append([PutRequest(key, b"v", lease=1) for key in keys])
    await applied(cluster)
    return leader


async def applied(cluster: Cluster) -> list[KvMachine]:
    """The machines of all nodes, once they have everything."""
    await cluster.wait_until_alike()
    for node in cluster.nodes.values():
        await node.wait_until_applied(node.log.end_offset - 1)
    machines = cluster.setup.state_machine
    assert isinstance(machines, KvMachines)
    return [machines.of[node_id] for node_id in cluster.nodes]


async def check_alike(cluster: Cluster, leader: Node[Any, Any], epoch: int) -> None:
    states = {tuple(saved(machine)) for machine in await applied(cluster)}
    assert len(states) == 1
    assert (await cluster.wait_for_leader()).view.epoch == epoch


def check_turns(counted: LookedAt) -> None:
    """Each node does at most a piece in a turn, with what reads and changes of the same keys add."""
    assert max(counted.by_time.values()) <= VOTERS * 3 * KEYS_PER_PIECE
    counted.by_time.clear()


@attrs.define
class UnderWay:
    """How many nodes are applying a command in steps."""

    nodes: int = 0
    begun: trio.Event = attrs.field(factory=trio.Event)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        applied_in_steps = KvMachine._applied
        monkeypatch.setattr(
            KvMachine, "_applied", lambda machine, steps: self._counted(applied_in_steps(machine, steps))
        )

    def _counted(self, steps: Steps[Result]) -> Steps[Result]:
        self.nodes += 1
        self.begun.set()
        try:
            return (yield from steps)
        finally:
            self.nodes -= 1


async def read_meanwhile(serving: Gateways, under_way: UnderWay, counts: set[str]) -> None:
    """Note what clients see of the keys while a command is applied."""
    everything = {"key": b64(START), "range_end": b64(END), "serializable": True, "keys_only": True}
    await under_way.begun.wait()
    while under_way.nodes:
        for client in serving.clients.values():
            _, answer = await client.post("/v3/kv/range", everything)
            counts.add(answer.get("count", "0"))
            assert int(answer.get("count", "0")) == len(answer.get("kvs", []))


@pytest.mark.parametrize("way", ["gateway", "produce"])
@pytest.mark.parametrize("name", ALLOWED)
@on_cluster(**kv_setup())
async def test_large_commands_leave_turns_to_others(
    cluster: Cluster, name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ALLOWED[name]
    leader = await fill(cluster)
    epoch = leader.view.epoch
    turns = LoopTurns.of_this_run()
    counted = looked_at(monkeypatch, lambda: turns.number)
    counts: set[str] = set()
    under_way = UnderWay()
    under_way.watch(monkeypatch)
    async with gateways(cluster) as serving:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_meanwhile, serving, under_way, counts)
            path = PATHS.get(type(command))
            if way == "produce" or path is None:
                await leader.append([command])
            else:
                status, _ = await serving.clients[1].post(path, dumps(command))
                assert status == 200
            await applied(cluster)
        assert str(KEYS) in counts
        assert counts <= {str(KEYS), "0"}, "a client has seen half of a command"
        check_turns(counted)
        await check_alike(cluster, leader, epoch)
        follower = cluster.machines[cluster.others(leader)[0].key.id]
        await follower.stop()
        await follower.start()
        await check_alike(cluster, leader, epoch)
        check_turns(counted)


@pytest.mark.parametrize("name", REFUSED)
@on_cluster(**kv_setup())
async def test_what_exceeds_the_budget_is_refused_everywhere(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = REFUSED[name]
    leader = await fill(cluster)
    epoch = leader.view.epoch
    revision = (await applied(cluster))[0].store.revision
    turns = LoopTurns.of_this_run()
    counted = looked_at(monkeypatch, lambda: turns.number)
    async with gateways(cluster) as serving:
        status, _ = await serving.clients[1].post("/v3/kv/txn", dumps(command))
        assert status == 400
        with pytest.raises(CommandFailed):
            await leader.execute(command)
        await leader.append([command])
        await check_alike(cluster, leader, epoch)
        assert {machine.store.revision for machine in await applied(cluster)} == {revision}
        follower = cluster.machines[cluster.others(leader)[0].key.id]
        await follower.stop()
        await follower.start()
        await check_alike(cluster, leader, epoch)
        check_turns(counted)


@on_cluster(**kv_setup())
async def test_a_record_of_many_items_is_not_decoded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of the topic has written it."""
    leader = await fill(cluster)
    before = saved((await applied(cluster))[0])
    data = PREFIX + msgpack.packb([3, [], [[]] * MAX_COMMAND_ITEMS])
    monkeypatch.setattr("kraft_trio.kv.command_serde._unpack", lambda *_: pytest.fail("it was decoded"))
    monkeypatch.setattr("kraft_trio.kv.command_serde._pack", lambda *_: pytest.fail("it is given encoded"))
    monkeypatch.setattr("kraft_trio.kv.command_serde.CommandSerde.encode", lambda self, value: value)
    await leader.append([data])
    assert {tuple(saved(machine)) for machine in await applied(cluster)} == {tuple(before)}


TOGETHER: dict[str, tuple[Command, ...]] = {
    "revoke": (PutRequest(b"new", lease=1), LeaseRevokeRequest(1)),
    "compaction": (PutRequest(b"new"), CompactionRequest(100)),
    "advance": (Advance(MAX_STEP_MS), Advance(2 * MAX_STEP_MS)),
}
"""Of two commands in a batch, the first one lets the second one have more to do."""


@pytest.mark.parametrize("name", TOGETHER)
@on_cluster(**kv_setup(voters=1))
async def test_a_command_that_another_one_of_its_batch_makes_long(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No node may end by it, and the second command still leaves turns to others."""
    leader = await cluster.wait_for_leader()
    await leader.append([LeaseGrantRequest(MAX_STEP_MS // 1000 + 1, 1), Advance(0)])
    keys = {"revoke": 63, "compaction": KEYS_PER_PIECE - 1, "advance": KEYS_PER_PIECE}[name]
    for start in range(0, keys, 500):
        await leader.append([PutRequest(b"%06d" % key, lease=1) for key in range(start, min(start + 500, keys))])
    await leader.wait_until_applied(leader.log.end_offset - 1)
    under_way = UnderWay()
    under_way.watch(monkeypatch)
    await leader.append(TOGETHER[name])
    await leader.wait_until_applied(leader.log.end_offset - 1)
    [machine] = await applied(cluster)
    assert under_way.begun.is_set()
    assert machine.store.count(Interval(b"", None)) == (keys + 1 if name == "compaction" else 0)
