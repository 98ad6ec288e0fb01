"""`kraft_trio.aio`: a node used from asyncio, with its results, errors and cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import trio

from examples.bank import SERDE, Bank, Command, Deposit, NotEnoughMoney, Transfer
from kraft_trio import (
    Committed,
    EncodeError,
    NodeClosedError,
    NodeConfig,
    NotAppendedError,
    OutcomeUnknownError,
    StorageError,
    aio,
)
from kraft_trio.aio import _Block
from kraft_trio.errors import leaves
from kraft_trio.portal import HostedBlock, TrioThread
from tests.support.single_voter import single_voter

Use = Callable[[aio.Node[Command, int]], Awaitable[None]]


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    return single_voter(tmp_path)


def run_with_node(config: NodeConfig, use: Use, make: Callable[[], Bank] = Bank) -> None:
    async def main() -> None:
        async with aio.open_node(config, serde=SERDE, state_machine=make()) as node:
            await use(node)

    asyncio.run(main())


class Mistaken(Bank):
    def apply(self, record: Committed[Command]) -> int:
        raise ValueError("a mistake in apply")


def test_calls_give_the_results_and_errors_of_the_node(config: NodeConfig) -> None:
    async def use(node: aio.Node[Command, int]) -> None:
        assert (await node.wait_for_leader()).leader_id == 1
        request_id = node.new_request_id()
        assert await node.execute(Deposit("alice", 10), request_id) == 10
        assert await node.execute(Deposit("alice", 10), request_id) == 10
        with pytest.raises(NotEnoughMoney):
            await node.execute(Transfer("alice", "bob", 11))
        with pytest.raises(EncodeError):
            await node.append(["no command"])  # type: ignore[list-item]
        [offset] = await node.append([Deposit("bob", 5)])
        await node.wait_until_applied(offset)
        assert await node.read_barrier() > offset
        async with aclosing(node.committed(offset)) as committed:
            assert (await anext(committed)).value == Deposit("bob", 5)
        async with aclosing(node.changes()) as changes:
            assert await anext(changes) == node.view
        assert node.high_watermark is not None
        assert node.stale.offset > offset
        assert node.metrics.values()["current-leader"] == 1
        assert b"current_leader" in node.metrics.exposition()
        assert (await node.take_snapshot()) is not None
        assert (node.skipped_records, node.key.id, node.config) == (0, 1, config)

    run_with_node(config, use)


def test_several_tasks_call_at_once(config: NodeConfig) -> None:
    async def use(node: aio.Node[Command, int]) -> None:
        balances = await asyncio.gather(*(node.execute(Deposit("alice", 1)) for _ in range(50)))
        assert sorted(balances) == list(range(1, 51))

    run_with_node(config, use)


def test_a_cancelled_task_cancels_its_call(config: NodeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(node: aio.Node[Command, int]) -> None:
        loop, began, notes = asyncio.get_running_loop(), asyncio.Event(), []

        async def parked() -> int:
            loop.call_soon_threadsafe(began.set)
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                notes.append("cancelled in the node's thread")
                raise

        monkeypatch.setattr(node._node, "read_barrier", parked)
        task = asyncio.create_task(node.read_barrier())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert notes == ["cancelled in the node's thread"]
        assert await node.execute(Deposit("alice", 1)) == 1

    run_with_node(config, use)


def test_a_timeout_ends_a_call(config: NodeConfig) -> None:
    async def use(node: aio.Node[Command, int]) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await node.wait_until_applied(1_000_000)

    run_with_node(config, use)


def test_a_fault_cancels_the_block_and_comes_out_as_it_is(config: NodeConfig) -> None:
    async def wait_in_block() -> None:
        async with aio.open_node(config, serde=SERDE, state_machine=Mistaken()) as node:
            await node.append([Deposit("alice", 1)])
            await asyncio.Event().wait()

    async def main() -> None:
        with pytest.raises(ValueError, match="a mistake in apply"):
            await wait_in_block()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    asyncio.run(main())


def test_what_callers_get_of_a_fault_is_dropped(config: NodeConfig) -> None:
    """The block ends by an OutcomeUnknownError, because the node has ended."""

    async def main() -> None:
        async with aio.open_node(config, serde=SERDE, state_machine=Mistaken()) as node:
            await asyncio.shield(node.execute(Deposit("alice", 1)))

    with pytest.raises(ValueError, match="a mistake in apply"):
        asyncio.run(main())


def test_a_fault_does_not_hide_an_error_of_the_block(config: NodeConfig) -> None:
    async def main() -> None:
        async with aio.open_node(config, serde=SERDE, state_machine=Mistaken()) as node:
            try:
                await node.append([Deposit("alice", 1)])
                await asyncio.Event().wait()
            except (OutcomeUnknownError, asyncio.CancelledError):  # the fault may come before the append's result
                raise KeyError("mine") from None

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(main())
    assert sorted(type(error).__name__ for error in leaves(raised.value)) == ["KeyError", "ValueError"]


def test_a_command_cut_off_by_the_end_is_unknown(config: NodeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop, began = asyncio.get_running_loop(), asyncio.Event()

        async def parked(_command: Command, _request_id: UUID | None) -> int:
            loop.call_soon_threadsafe(began.set)
            await trio.sleep_forever()

        async with aio.open_node(config, serde=SERDE, state_machine=Bank()) as node:
            monkeypatch.setattr(node._node, "execute", parked)
            request_id = node.new_request_id()
            command = asyncio.create_task(node.execute(Deposit("alice", 1), request_id))
            await began.wait()
        with pytest.raises(OutcomeUnknownError) as raised:
            await command
        assert raised.value.request_id == request_id

    asyncio.run(main())


def test_errors_of_the_block_come_out_and_the_node_closes(config: NodeConfig) -> None:
    async def main() -> None:
        with pytest.raises(KeyError):
            async with aio.open_node(config, serde=SERDE, state_machine=Bank()) as node:
                raise KeyError("mine")
        with pytest.raises(NodeClosedError):
            await node.read_barrier()
        with pytest.raises(NotAppendedError, match="the node has stopped"):
            await node.execute(Deposit("alice", 1))
        with pytest.raises(NodeClosedError):
            _ = node.stale
        async with aio.open_node(config, serde=SERDE, state_machine=Bank()) as again:
            assert await again.execute(Deposit("alice", 1)) == 1

    asyncio.run(main())


def test_a_cancelled_block_closes_the_node(config: NodeConfig) -> None:
    async def main() -> None:
        is_open = asyncio.Event()

        async def hold() -> None:
            async with aio.open_node(config, serde=SERDE, state_machine=Bank()):
                is_open.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        await is_open.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with aio.open_node(config, serde=SERDE, state_machine=Bank()):
            pass

    asyncio.run(main())


def test_a_block_that_ends_before_it_is_entered_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are told to the event loop in one turn, and a block that only waits must not wait for ever."""
    interrupted = threading.Event()

    class Noted(HostedBlock[None]):
        def __init__(self, thread: TrioThread, manager: Any, interrupt: Callable[[], object]) -> None:
            super().__init__(thread, manager, lambda: (interrupt(), interrupted.set()))

    @asynccontextmanager
    async def ends_at_once() -> AsyncIterator[None]:
        with trio.CancelScope() as scope:
            scope.cancel()
            yield

    async def main() -> None:
        thread = TrioThread("test")
        thread.start()
        # The loop is busy until both have happened.
        asyncio.get_running_loop().call_soon(interrupted.wait, 60)
        async with asyncio.timeout(60), _Block(thread, ends_at_once):
            await asyncio.sleep(3600)
        await asyncio.to_thread(thread.stop)

    monkeypatch.setattr("kraft_trio.aio.HostedBlock", Noted)
    asyncio.run(main())


def test_the_end_of_a_leadership_cancels_its_block(config: NodeConfig) -> None:
    async def use(node: aio.Node[Command, int]) -> None:
        for _ in range(2):
            async with node.leadership() as term:
                await node.append([Deposit("alice", 1)], epoch=term.epoch)
                resigning = asyncio.create_task(node.resign())
                await asyncio.Event().wait()
            assert term.was_interrupted
            assert term.has_ended
            await resigning
        async with node.leadership() as term:
            pass
        assert not term.was_interrupted

    run_with_node(config, use)


def test_a_leadership_passes_on_errors_and_cancellations(config: NodeConfig) -> None:
    async def use(node: aio.Node[Command, int]) -> None:
        with pytest.raises(KeyError):
            async with node.leadership():
                raise KeyError("mine")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), node.leadership():
                await asyncio.Event().wait()

    run_with_node(config, use)


def test_a_task_that_waits_for_a_leadership_can_be_cancelled(
    config: NodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(node: aio.Node[Command, int]) -> None:
        loop, began, notes = asyncio.get_running_loop(), asyncio.Event(), []

        @asynccontextmanager
        async def never() -> AsyncIterator[None]:
            loop.call_soon_threadsafe(began.set)
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                notes.append("cancelled in the node's thread")
                raise
            yield

        async def lead() -> None:
            async with node.leadership():
                notes.append("in the block")

        monkeypatch.setattr(node._node, "leadership", never)
        task = asyncio.create_task(lead())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert notes == ["cancelled in the node's thread"]

    run_with_node(config, use)


def test_a_directory_is_formatted_once(tmp_path: Path) -> None:
    voters = {1: "127.0.0.1:1"}
    config = NodeConfig(
        node_id=1,
        listeners="CONTROLLER://127.0.0.1:1",
        quorum_bootstrap_servers="127.0.0.1:1",
        metadata_log_dir=str(tmp_path / "new"),
    )

    async def main() -> list[bool]:
        return [await aio.ensure_formatted(config, "ySvf4iIwQ5a13rqtClr5pg", voters) for _ in range(2)]

    assert asyncio.run(main()) == [True, False]


def test_a_directory_that_cannot_be_used_is_told_as_such(tmp_path: Path) -> None:
    config = single_voter(tmp_path)

    async def main() -> None:
        async with aio.open_node(config), aio.open_node(config):
            pass

    with pytest.raises(StorageError):
        asyncio.run(main())
    with pytest.raises(TypeError, match="config: str"):
        asyncio.run(open_wrongly())


async def open_wrongly() -> None:
    async with aio.open_node("node.properties"):  # type: ignore[call-overload]
        pass
