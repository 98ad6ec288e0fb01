"""Calls outside of the node's `trio.run`, which could neither wait for the node nor be resumed by it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
import trio

from kraft_trio import Committed, Node, NodeConfig, ensure_formatted, open_node, random_uuid
from tests.support.single_voter import single_voter


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    return single_voter(tmp_path)


class Length:
    total = 0

    def apply(self, record: Committed[bytes]) -> int:
        self.total += len(record.value)
        return self.total

    def save(self) -> list[bytes]:
        return [b"%d" % self.total]

    async def load(self, records: object) -> None:
        raise NotImplementedError


async def first_change(node: Node[bytes, int]) -> None:
    async with aclosing(node.changes()) as changes:
        await anext(changes)


async def first_committed(node: Node[bytes, int]) -> None:
    async with aclosing(node.committed()) as committed:
        await anext(committed)


async def lead(node: Node[bytes, int]) -> None:
    async with node.leadership():
        pass


CALLS: dict[str, Callable[[Node[bytes, int]], Awaitable[object]]] = {
    "wait_for_leader": lambda node: node.wait_for_leader(),
    "changes": first_change,
    "leadership": lead,
    "resign": lambda node: node.resign(),
    "transfer_leadership": lambda node: node.transfer_leadership(1),
    "append": lambda node: node.append([b"a"]),
    "execute": lambda node: node.execute(b"a"),
    "committed": first_committed,
    "wait_until_applied": lambda node: node.wait_until_applied(10**9),
    "read_barrier": lambda node: node.read_barrier(),
    "take_snapshot": lambda node: node.take_snapshot(),
}


async def test_calls_from_another_run_are_refused_and_harm_nothing(config: NodeConfig) -> None:
    async with open_node(config, state_machine=Length()) as node:
        await node.wait_for_leader()

        def from_another_run() -> None:
            for name, call in CALLS.items():
                said = f"^{name}: called outside the trio.run of the node; expected trio.from_thread.run"
                with pytest.raises(RuntimeError, match=said):
                    trio.run(call, node)
                with pytest.raises(RuntimeError, match=said):
                    asyncio.run(call(node))  # type: ignore[arg-type]

        await trio.to_thread.run_sync(from_another_run)
        assert await node.execute(b"ab") == 2
        assert await trio.to_thread.run_sync(trio.from_thread.run, node.execute, b"c") == 3


def test_asyncio_is_told_what_to_import(config: NodeConfig) -> None:
    async def opened() -> None:
        async with open_node(config):
            raise AssertionError("opened")

    with pytest.raises(RuntimeError, match=r"^open_node: called outside trio\.run; expected that of kraft_trio\.aio"):
        asyncio.run(opened())
    with pytest.raises(RuntimeError, match=r"^ensure_formatted: called outside trio\.run; expected that of"):
        asyncio.run(ensure_formatted(config, random_uuid()))
