"""What ends a node comes out of `open_node` as itself, whatever the block was doing."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable

import pytest
import trio

from kraft_trio import Committed, Node, NodeClosedError, OutcomeUnknownError, StorageFailure
from kraft_trio.errors import DiskFullError
from kraft_trio.simulation import Cluster
from tests.support.ledger import Ledger
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster

Body = Callable[[Node], Awaitable[object]]


class MyError(Exception):
    """An error of the application's own."""


async def append_forever(node: Node) -> None:
    while True:
        await node.append([b"value"])


async def append_in_several_tasks(node: Node) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(append_forever, node)


async def execute_forever(node: Node) -> None:
    while True:
        await node.execute(b"value", node.new_request_id())


async def translate(node: Node) -> None:
    try:
        await append_forever(node)
    except OutcomeUnknownError as error:
        raise MyError("the store is gone") from error


async def use_it_after_its_end(node: Node) -> None:
    with trio.CancelScope(shield=True):
        try:
            await append_forever(node)
        except OutcomeUnknownError:
            await node.append([b"more"])


async def wait(_node: Node) -> None:
    await trio.sleep_forever()


async def use_until_the_disk_fails(cluster: Cluster, body: Body, operation: str, **fault: int) -> None:
    await cluster.machines[1].stop()
    async with lone_node(cluster, 1, state_machine=Ledger()) as node, trio.open_nursery() as nursery:
        await node.append([b"first"])
        nursery.start_soon(body, node)
        await trio.sleep(0.05)
        cluster.machines[1].disk.fail(operation, **fault)
        await node.append([b"last"])


BODIES = [append_forever, append_in_several_tasks, execute_forever, translate, use_it_after_its_end, wait]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("operation", ["sync", "append"])
@on_cluster(voters=1)
async def test_a_failed_disk_is_what_comes_out(cluster: Cluster, operation: str, body: Body) -> None:
    with pytest.raises(StorageFailure, match="injected: EIO"):
        await use_until_the_disk_fails(cluster, body, operation)


@pytest.mark.parametrize("body", BODIES)
@on_cluster(voters=1)
async def test_a_full_disk_is_what_comes_out(cluster: Cluster, body: Body) -> None:
    with pytest.raises(DiskFullError):
        await use_until_the_disk_fails(cluster, body, "append", code=errno.ENOSPC, times=1000)


class Broken(Ledger):
    def apply(self, record: Committed[bytes]) -> int:
        if record.value == b"bad":
            raise MyError("a bug of the application")
        return super().apply(record)


@on_cluster(voters=1)
async def test_what_apply_raises_is_what_comes_out(cluster: Cluster) -> None:
    async def use() -> None:
        async with lone_node(cluster, 1, state_machine=Broken()) as node:
            assert await node.execute(b"good") == 1
            await node.execute(b"bad")

    await cluster.machines[1].stop()
    with pytest.raises(MyError, match="a bug of the application"):
        await use()


@on_cluster(voters=1)
async def test_another_error_of_the_block_is_not_dropped(cluster: Cluster) -> None:
    async def use() -> None:
        async with lone_node(cluster, 1, state_machine=Broken()) as node:
            await node.append([b"bad"])
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("in the cleanup")

    await cluster.machines[1].stop()
    with pytest.raises(ExceptionGroup) as caught:
        await use()
    assert caught.group_contains(MyError)
    assert caught.group_contains(KeyError)


@on_cluster(voters=1)
async def test_an_error_of_the_block_alone_comes_out(cluster: Cluster) -> None:
    await cluster.machines[1].stop()
    with pytest.raises(NodeClosedError):
        async with lone_node(cluster, 1):
            raise NodeClosedError("of another node")
