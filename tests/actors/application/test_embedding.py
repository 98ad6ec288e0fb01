"""The end of a node, as the tasks of the embedding application see it that are not part of its block."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
import trio
import trio.testing

from kraft_trio.application.serde import MsgpackSerde
from kraft_trio.config import LoadedConfig, NodeConfig
from kraft_trio.errors import NodeClosedError, NotAppendedError, OutcomeUnknownError
from kraft_trio.node import Node
from kraft_trio.running import open_node
from kraft_trio.simulation import Cluster
from kraft_trio.storage.batches.batch import NewRecord
from tests.support.ledger import Ledgers
from tests.support.on_cluster import on_cluster
from tests.support.public_calls import waiting_methods


async def failure_of(node: Node, outcomes: list[object]) -> None:
    try:
        outcomes.append(await node.append([b"value"]))
    except (NodeClosedError, OutcomeUnknownError) as error:
        outcomes.append(type(error))


@on_cluster()
async def test_appends_that_still_wait_are_answered(cluster: Cluster) -> None:
    """The first was sent and may have taken effect; the second had not left the node."""
    async with trio.open_nursery() as nursery:
        leader = await cluster.wait_for_leader()
        cluster.partition({leader.key.id}, set(cluster.voter_ids) - {leader.key.id})
        outcomes: list[object] = []
        for _ in range(2):
            nursery.start_soon(failure_of, leader, outcomes)
            await trio.testing.wait_all_tasks_blocked()
        cluster.machines[leader.key.id].kill()
        await cluster.machines[leader.key.id].wait_until_ended()
        await trio.testing.wait_all_tasks_blocked()
        assert set(outcomes) == {OutcomeUnknownError, NodeClosedError}


@on_cluster(voters=1)
async def test_an_append_to_a_stopped_node_is_refused(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    await cluster.machines[1].stop()
    with pytest.raises(NodeClosedError):
        await node.append([b"value"])


@on_cluster(voters=1)
async def test_a_reader_hears_that_the_node_has_stopped(cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        node = await cluster.wait_for_leader()
        await node.append([b"value"])
        seen: list[object] = []

        async def read() -> None:
            try:
                async for record in node.committed(0):
                    seen.append(record.value)
            except NodeClosedError:
                seen.append("closed")

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        await cluster.machines[1].stop()
        with trio.fail_after(1):
            while nursery.child_tasks:  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert seen == [b"value", "closed"]


@on_cluster(voters=1)
async def test_a_reader_that_is_behind_hears_of_it_too(cluster: Cluster) -> None:
    """More is committed than is read at a time, and the node stops while the reader is busy with the first of it."""
    node = await cluster.wait_for_leader()
    for _ in range(4):
        await node.append([bytes(400_000)])
    committed = node.committed(0)
    await anext(committed)
    await cluster.machines[1].stop()
    with pytest.raises(NodeClosedError):
        async for _ in committed:
            pass


@on_cluster(voters=3, started=(1,))
async def test_those_who_await_a_leader_hear_that_the_node_stopped(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    async with trio.open_nursery() as nursery:
        outcomes: list[object] = []

        async def wait() -> None:
            with pytest.raises(NodeClosedError):
                await node.wait_for_leader()
            outcomes.append("closed")

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await cluster.machines[1].stop()
        with trio.fail_after(1):
            while nursery.child_tasks:  # noqa: ASYNC110
                await trio.sleep(0.01)
    assert outcomes == ["closed"]
    with pytest.raises(NodeClosedError):
        await node.wait_for_leader()


async def to_the_end(items: AsyncGenerator[object, None]) -> None:
    async for _ in items:
        pass


async def lead(node: Node) -> None:
    async with node.leadership():
        pass


CALLS: dict[str, Callable[[Node], Awaitable[object]]] = {
    "append": lambda node: node.append([b"value"]),
    "append(epoch=)": lambda node: node.append([b"value"], epoch=node.view.epoch),
    "changes": lambda node: to_the_end(node.changes()),
    "committed": lambda node: to_the_end(node.committed()),
    "execute": lambda node: node.execute(b"command"),
    "leadership": lead,
    "read_barrier": Node.read_barrier,
    "take_snapshot": Node.take_snapshot,
    "transfer_leadership": lambda node: node.transfer_leadership(1),
    "wait_for_leader": Node.wait_for_leader,
    "wait_until_applied": lambda node: node.wait_until_applied(100),
}


@on_cluster(voters=1, state_machine=Ledgers())
async def test_each_call_after_the_end_gets_its_error(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    await cluster.machines[1].stop()
    errors = {}
    for name, call in CALLS.items():
        try:
            with trio.fail_after(60):
                await call(node)
        except (NodeClosedError, NotAppendedError) as error:
            errors[name] = type(error)
    assert errors == {**dict.fromkeys(CALLS, NodeClosedError), "execute": NotAppendedError}
    await node.resign()  # it leads no more
    assert {name.partition("(")[0] for name in CALLS} | {"resign"} == set(waiting_methods(Node))


@on_cluster(voters=1)
async def test_mistaken_arguments_get_a_sentence(cluster: Cluster) -> None:
    node = await cluster.wait_for_leader()
    for values in (b"value", "value", NewRecord(b"value"), 5, (value for value in [b"value"])):
        with pytest.raises(TypeError, match=f"values: {type(values).__name__}, expected a list of values"):
            await node.append(values)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"epoch: Term.*, expected the epoch of a term"):
        async with node.leadership() as term:
            await node.append([b"value"], epoch=term)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="to: '2', expected the id of a voter"):
        await node.transfer_leadership("2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timeout_ms: '5s', expected milliseconds"):
        await node.transfer_leadership(2, timeout_ms="5s")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout_ms: 0, expected 1 or more"):
        await node.transfer_leadership(2, timeout_ms=0)
    with pytest.raises(TypeError, match="from_offset: '0', expected an offset"):
        await anext(node.committed("0"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"offset: .*range.*, expected one of the offsets that append returns"):
        await node.wait_until_applied(await node.append([b"value"]))  # type: ignore[arg-type]


def test_a_configuration_of_another_type_gets_a_sentence() -> None:
    loaded = LoadedConfig(NodeConfig(node_id=1, process_roles="broker", metadata_log_dir="data"))
    with pytest.raises(TypeError, match="config: LoadedConfig, expected NodeConfig; it is its"):
        open_node(loaded)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="config: str, expected NodeConfig"):
        open_node("node.properties")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="serde: 5, expected an object with encode and decode"):
        open_node(loaded.config, serde=5)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="serde: the class MsgpackSerde, expected an object with encode and decode"):
        open_node(loaded.config, serde=MsgpackSerde)  # type: ignore[call-overload]
