"""An application that wants to read what it has just appended waits until its own state has it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from kraft_trio.errors import NodeClosedError
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.storage.batches.batch import Record
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster, run_on_cluster


class HeldBack(RememberedValues):
    """An application that takes nothing in before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = trio.Event()

    async def on_commit(self, records: Sequence[Record]) -> None:
        await self.may_go_on.wait()
        await super().on_commit(records)


class Waiting:
    """Somebody who waits until a node's application has a record."""

    def __init__(self, node: Node, offset: int) -> None:
        self.node = node
        self.offset = offset
        self.outcome = ""

    async def run(self) -> None:
        try:
            await self.node.wait_until_applied(self.offset)
        except NodeClosedError as error:
            self.outcome = str(error)
        else:
            self.outcome = "applied"


def test_it_ends_when_the_application_has_the_record() -> None:
    machine = HeldBack()

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        [offset] = await node.append([b"value"])
        waiting = Waiting(node, offset)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.run)
            await trio.sleep(60)
            assert node.high_watermark == offset + 1
            assert not waiting.outcome
            machine.may_go_on.set()
        assert waiting.outcome == "applied"
        assert machine.values == [b"value"]
        with trio.fail_after(0):
            await node.wait_until_applied(offset)

    run_on_cluster(test, Setup(voters=1, state_machine=lambda _: machine))


def test_a_snapshot_that_is_loaded_has_all_before_its_end() -> None:
    machines: list[HeldBack] = []

    def made(_: int) -> HeldBack:
        machines.append(HeldBack())
        machines[-1].may_go_on.set()
        return machines[-1]

    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        [offset] = await node.append([b"value"])
        await node.wait_until_applied(offset)
        assert await node.take_snapshot() is not None
        await cluster.machines[1].stop()
        await cluster.machines[1].start()
        await cluster.nodes[1].wait_until_applied(offset)
        assert machines[-1].loaded == [offset + 1]

    run_on_cluster(test, Setup(voters=1, state_machine=made))


def test_a_node_that_stops_ends_the_wait() -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.wait_for_leader()
        waiting = Waiting(node, 1000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.run)
            await trio.testing.wait_all_tasks_blocked()
            await cluster.machines[1].stop()
        assert waiting.outcome.startswith("offset 1000: the node stopped at offset ")
        with pytest.raises(NodeClosedError):
            await node.wait_until_applied(1000)

    run_on_cluster(test, Setup(voters=1, state_machine=lambda _: RememberedValues()))


@on_cluster(voters=1)
async def test_without_an_application_there_is_nothing_to_wait_for(cluster: Cluster) -> None:
    await cluster.machines[1].stop()
    async with lone_node(cluster, 1) as node:
        with pytest.raises(ValueError, match="opened without state_machine= or on_commit="):
            await node.wait_until_applied(0)
