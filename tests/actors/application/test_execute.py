"""`Node.execute` on any node: the caller gets the result of its command, which is applied once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID, uuid4

import attrs
import pytest
import trio
import trio.testing

from kraft_trio import (
    EncodeError,
    NewRecord,
    NotAppendedError,
    OutcomeUnknownError,
    RefusedError,
    RequestTooOldError,
)
from kraft_trio.actors.application.appender import Appender
from kraft_trio.application import machine_adapter
from kraft_trio.application.machine_adapter import REQUEST_HEADER
from kraft_trio.protocol.request_ids import issued_at_ms, new_request_id
from kraft_trio.protocol.request_table import AHEAD_MS, RequestLimits, RequestTable
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.wire.api import PRODUCE
from tests.simulation.mutants.runs import storm
from tests.simulation.mutants.snapshots import SETTINGS
from tests.support.ledger import Clients, Ledgers, Refusal, restart_from_snapshots
from tests.support.logs import values_in
from tests.support.on_cluster import on_cluster, run_on_cluster

TRIMMING = {
    **SETTINGS,
    "metadata.log.max.record.bytes.between.snapshots": "700",
}


@on_cluster(observers=1, state_machine=Ledgers())
async def test_every_node_returns_the_result(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    results = [await node.execute(b"%d" % node.key.id) for node in cluster.nodes.values()]
    assert results == [1, 2, 3, 4]


@on_cluster(state_machine=Ledgers())
async def test_commands_under_way_together_get_their_own_results(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    ledgers = cluster.setup.state_machine
    results: dict[bytes, int] = {}

    async def execute(node_id: int, command: bytes) -> None:
        results[command] = await cluster.nodes[node_id].execute(command)

    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(execute, 1 + number % 3, b"%d" % number)
    assert isinstance(ledgers, Ledgers)
    await cluster.wait_until(lambda: all(len(ledger.entries) == len(results) for ledger in ledgers.of.values()))
    for ledger in ledgers.of.values():
        assert {entry: place for place, entry in enumerate(ledger.entries, 1)} == results


@on_cluster(state_machine=Ledgers())
async def test_a_command_that_fails_is_applied_but_failed(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    assert await leader.execute(b"a") == 1
    request_id = leader.new_request_id()
    for node in (leader, *cluster.others(leader)):
        with pytest.raises(Refusal) as caught:
            await node.execute(b"b?", request_id)
        assert caught.value.args == (b"b?", 1)
    assert await leader.execute(b"c") == 2
    assert values_in(leader)[:2] == [b"a", b"b?"]


@pytest.mark.parametrize("retry_at", ["the same node", "another node", "every node after a restart"])
@on_cluster(state_machine=Ledgers())
async def test_a_retry_gets_the_first_result(cluster: Cluster, retry_at: str) -> None:
    leader = await cluster.wait_for_leader()
    other = cluster.others(leader)[0]
    request_id = leader.new_request_id()
    assert await leader.execute(b"once", request_id) == 1
    assert await leader.execute(b"more") == 2
    nodes = [leader] if retry_at == "the same node" else [other]
    if retry_at == "every node after a restart":
        for machine in cluster.machines.values():
            await machine.stop()
        for machine in cluster.machines.values():
            await machine.start()
        await cluster.wait_for_leader()
        nodes = list(cluster.nodes.values())
    for node in nodes:
        assert await node.execute(b"once", request_id) == 1
    assert await nodes[0].execute(b"last") == 3


@on_cluster(state_machine=Ledgers(), settings=SETTINGS)
async def test_a_snapshot_keeps_the_requests(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    request_id, failed_id = leader.new_request_id(), leader.new_request_id()
    await leader.execute(b"once", request_id)
    with pytest.raises(Refusal):
        await leader.execute(b"no?", failed_id)
    await restart_from_snapshots(cluster)
    for node in cluster.nodes.values():
        assert await node.execute(b"once", request_id) == 1
        with pytest.raises(Refusal, match="no"):
            await node.execute(b"no?", failed_id)


@on_cluster(state_machine=Ledgers())
async def test_a_retry_that_overtakes_gets_the_result_once(cluster: Cluster) -> None:
    """Both tries are in the log; the second one is recognized when it is applied."""
    leader = await cluster.wait_for_leader()
    other = cluster.others(leader)[0]
    request_id = leader.new_request_id()
    results: list[int] = []

    async def execute(node_id: int) -> None:
        results.append(await cluster.nodes[node_id].execute(b"once", request_id))

    async with trio.open_nursery() as nursery:
        for node_id in (leader.key.id, other.key.id, other.key.id):
            nursery.start_soon(execute, node_id)
    assert results == [1, 1, 1]
    assert values_in(leader).count(b"once") > 1
    assert await leader.execute(b"next") == 2


@on_cluster(state_machine=Ledgers())
async def test_a_stopped_node_tells_the_id_to_retry_with(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    follower, other = cluster.others(leader)
    request_id = follower.new_request_id()
    cluster.network.lose_answers(PRODUCE, times=100)
    caught: list[OutcomeUnknownError] = []

    async def execute() -> None:
        try:
            await follower.execute(b"once", request_id)
        except OutcomeUnknownError as error:
            caught.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(execute)
        await cluster.wait_until(lambda: b"once" in values_in(leader))
        await cluster.machines[follower.key.id].stop()
    assert [error.request_id for error in caught] == [request_id]
    assert await other.execute(b"once", request_id) == 1
    with pytest.raises(NotAppendedError, match="the node has stopped"):
        await follower.execute(b"later")


@on_cluster(state_machine=Ledgers())
async def test_a_request_of_unknown_fate_gets_its_result(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    real, left = Appender.append, 2

    async def append(self: Appender, records: Sequence[NewRecord]) -> int:
        """Twice, nobody hears what became of an append that has committed."""
        nonlocal left
        offset = await real(self, records)
        if left:
            left -= 1
            raise OutcomeUnknownError("append: lost")
        return offset

    monkeypatch.setattr(Appender, "append", append)
    node = cluster.others(leader)[0]
    assert await node.execute(b"once", node.new_request_id()) == 1
    left = 1
    with pytest.raises(OutcomeUnknownError, match="append: lost") as caught:
        await node.execute(b"maybe")
    assert caught.value.request_id is None
    assert await node.execute(b"next") == 3


def test_a_forgotten_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = partial(RequestTable, limits=RequestLimits(max_requests=2))
    monkeypatch.setattr(machine_adapter, "RequestTable", table)

    async def test(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        ids = []
        for number in range(4):
            ids.append(leader.new_request_id())
            assert await leader.execute(b"x", ids[-1]) == number + 1
            await trio.sleep(0.01)
        for node in cluster.nodes.values():
            await node.wait_until_applied(leader.log.end_offset - 1)
            with pytest.raises(RequestTooOldError, match=str(ids[0])):
                await node.execute(b"x", ids[0])
            assert await node.execute(b"x", ids[3]) == 4

    run_on_cluster(test, Setup(state_machine=Ledgers()))


@on_cluster(state_machine=Ledgers())
async def test_an_id_of_a_wrong_clock_is_refused(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    issued_ms = issued_at_ms(leader.new_request_id())
    with pytest.raises(RefusedError, match="issued in the future"):
        await leader.execute(b"x", new_request_id(issued_ms + AHEAD_MS + 60_000, 1))
    assert await leader.execute(b"x", new_request_id(issued_ms + AHEAD_MS - 60_000, 1)) == 1


@pytest.mark.parametrize(
    ("request_id", "record", "message"),
    [
        (uuid4(), b"x", "a UUID of version 7 expected"),
        (str(new_request_id(1, 1)), b"x", "request_id: '0.*' given, a UUID of version 7 expected"),
        (None, NewRecord(b"x", headers=(("a", b""),) * 1000), "headers: 1001 given, 1000 at most expected"),
        (None, NewRecord(b"x", headers=(("kraft.request", b""),)), "header 'kraft.request': reserved for execute"),
    ],
)
@on_cluster(voters=1, state_machine=Ledgers())
async def test_wrong_arguments_are_named(
    cluster: Cluster, request_id: UUID | str | None, record: bytes, message: str
) -> None:
    node = await cluster.wait_for_leader()
    with pytest.raises(ValueError, match=message):
        await node.execute(record, request_id)


@on_cluster(voters=1, state_machine=Ledgers())
async def test_an_appended_request_id_that_no_replica_could_read_is_refused(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    end = node.log.end_offset
    with pytest.raises(EncodeError, match=r"header 'kraft\.request': 6964, expected a UUID of version 7"):
        await node.append([NewRecord(b"command", headers=((REQUEST_HEADER, b"id"),))])
    assert node.log.end_offset == end
    await node.append([NewRecord(b"command", headers=((REQUEST_HEADER, node.new_request_id().bytes),))])


@on_cluster(voters=1)
async def test_without_a_state_machine_there_are_no_results(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="execute: the node was opened without state_machine="):
        await cluster.nodes[1].execute(b"x")


FAULTS = {
    "processes": (
        *("kill", "stop", "restart", "pause", "pause_then_kill", "kill_all", "strike_leader", "crash", "crash_all"),
        *("slow_disk", "take_snapshots", "lag"),
    ),
    "network": (
        *("isolate", "halves", "bridge", "one_way", "requests_only", "answers_of_the_leader_lost", "loss", "resets"),
        *("duplicates", "clog", "drift", "jump_clock", "strike_leader", "take_snapshots"),
    ),
    "membership": (
        *("change_of_a_new_leader", "change_and_strike", "two_changes", "grow", "remove_leader", "replace_disk"),
        *("take_snapshots", "strike_leader", "crash"),
    ),
}


@pytest.mark.rotating(6)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", FAULTS)
def test_commands_are_applied_once_under_faults(kind: str, seed: int) -> None:
    """Requests are retried on other nodes, after restarts, and after snapshots."""
    faults = storm(
        f"commands and {kind}",
        *FAULTS[kind],
        seconds=8,
        clients=0,
        recovers=True,
        observers=2,
        settings=tuple(TRIMMING.items()),
    )
    ledgers = Ledgers()

    async def test(cluster: Cluster) -> None:
        cluster.survivability.is_guarded = True
        clients = Clients(cluster, 4)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clients.run)
            await faults.main(cluster)
            clients.stop()
        await cluster.wait_until_alike()
        for node in cluster.nodes.values():
            await node.wait_until_applied(node.log.end_offset - 1)
        assert len(clients.requests) > 10
        assert any(request.tries > 1 for request in clients.requests)
        clients.check(ledgers)

    run_on_cluster(test, attrs.evolve(faults.setup, seed=seed, state_machine=ledgers))
