"""A node for asyncio: the names and errors of `kraft_trio`, while the node runs Trio in a thread of its own.

The state machine is called in that thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack, cast, overload
from uuid import UUID

from kraft_trio import formatting
from kraft_trio import running as trio_node
from kraft_trio.actors.election.leadership import Term
from kraft_trio.application.serde import Serde
from kraft_trio.application.state_machine import Committed, StateMachine
from kraft_trio.config import NodeConfig
from kraft_trio.errors import NodeClosedError
from kraft_trio.messages import QuorumView
from kraft_trio.portal import (
    END,
    Call,
    HostedBlock,
    NodeInThread,
    TrioThread,
    next_of,
    not_executed,
    refuse_in_trio,
    takes_arguments_of,
)
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.running import BatchOptions, Options
from kraft_trio.storage.batches.batch import NewRecord
from kraft_trio.surfacing import raise_in_coroutine

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")

__all__ = ["Node", "ensure_formatted", "open_node"]


class Node(NodeInThread[T, R]):
    """A running node.  Each call does what that of `kraft_trio.Node` does.

    Cancelling a call cancels it in the node's thread, and waits until it has ended there.
    """

    async def wait_for_leader(self) -> QuorumView:
        """Like `kraft_trio.Node.wait_for_leader`."""
        return await self._call(self._node.wait_for_leader)

    async def changes(self) -> AsyncGenerator[QuorumView, None]:
        """Like `kraft_trio.Node.changes`."""
        async for view in self._items(self._node.changes()):
            yield view

    def leadership(self) -> AbstractAsyncContextManager[Term]:
        """Like `kraft_trio.Node.leadership`: the end of the leadership cancels the block, which then ends normally."""
        return _Block(self._thread, self._node.leadership)

    async def resign(self) -> None:
        """Like `kraft_trio.Node.resign`."""
        await self._call(self._node.resign)

    async def transfer_leadership(self, to: int, *, timeout_ms: int = 30_000) -> int:
        """Like `kraft_trio.Node.transfer_leadership`."""
        return await self._call(partial(self._node.transfer_leadership, to, timeout_ms=timeout_ms))

    async def append(self, values: Sequence[T | NewRecord], *, epoch: int | None = None) -> range:
        """Like `kraft_trio.Node.append`."""
        return await self._call(partial(self._node.append, values, epoch=epoch))

    async def execute(self, command: T | NewRecord, request_id: UUID | None = None) -> R:
        """Like `kraft_trio.Node.execute`."""
        call = self._thread.submit(partial(self._node.execute, command, request_id))
        try:
            return await _result(call)
        except NodeClosedError as error:
            raise not_executed(call, request_id) from error

    async def committed(self, from_offset: int = 0) -> AsyncGenerator[Committed[T], None]:
        """Like `kraft_trio.Node.committed`."""
        async for committed in self._items(self._node.committed(from_offset)):
            yield committed

    async def wait_until_applied(self, offset: int) -> None:
        """Like `kraft_trio.Node.wait_until_applied`."""
        await self._call(partial(self._node.wait_until_applied, offset))

    async def read_barrier(self) -> int:
        """Like `kraft_trio.Node.read_barrier`."""
        return await self._call(self._node.read_barrier)

    async def take_snapshot(self) -> OffsetAndEpoch | None:
        """Like `kraft_trio.Node.take_snapshot`."""
        return await self._call(self._node.take_snapshot)

    async def _call(self, function: Callable[[], Awaitable[V]]) -> V:
        return await _result(self._thread.submit(function))

    async def _items(self, generator: AsyncGenerator[V, None]) -> AsyncGenerator[V, None]:
        try:
            while (item := await self._call(partial(next_of, generator))) is not END:
                yield cast(V, item)
        finally:
            with suppress(NodeClosedError):
                await self._call(generator.aclose)


@overload
def open_node(
    config: NodeConfig, *, state_machine: StateMachine[bytes, R], **options: Unpack[Options]
) -> AbstractAsyncContextManager[Node[bytes, R]]: ...
@overload
def open_node(
    config: NodeConfig, *, serde: Serde[T], state_machine: StateMachine[T, R], **options: Unpack[Options]
) -> AbstractAsyncContextManager[Node[T, R]]: ...
@overload
def open_node(
    config: NodeConfig, **options: Unpack[BatchOptions]
) -> AbstractAsyncContextManager[Node[bytes, None]]: ...
@overload
def open_node(
    config: NodeConfig, *, serde: Serde[T], **options: Unpack[BatchOptions]
) -> AbstractAsyncContextManager[Node[T, None]]: ...
@takes_arguments_of(trio_node.open_node)
def open_node(config: NodeConfig, **options: Any) -> AbstractAsyncContextManager[Node[Any, Any]]:
    """Open a node as `kraft_trio.open_node` does, in a thread of its own, until the block is left.

    A fault of the running node cancels the block and is raised as it is.
    """
    return _Opened(partial(trio_node.open_node, config, **options))


class _Opened(AbstractAsyncContextManager[Node[Any, Any]]):
    """The block in which a node runs in a thread."""

    def __init__(self, open_in_thread: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._thread = TrioThread("kraft node")
        self._block = _Block(self._thread, open_in_thread)

    async def __aenter__(self) -> Node[Any, Any]:
        self._thread.start()
        try:
            return Node(self._thread, await self._block.__aenter__())
        except BaseException:
            self._thread.stop()
            raise

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            return await self._block.__aexit__(cls, error, traceback)
        finally:
            self._thread.stop()


async def ensure_formatted(
    config: NodeConfig, cluster_id: str, first_voters: Mapping[int, Endpoint | str] | None = None
) -> bool:
    """Like `kraft_trio.ensure_formatted`."""
    thread = TrioThread("kraft format")
    thread.start()
    try:
        return await _result(thread.submit(partial(formatting.ensure_formatted, config, cluster_id, first_voters)))
    finally:
        thread.stop()


async def _result(call: Call[V]) -> V:
    """Wait for a call.  If this task is cancelled, cancel the call and wait for its end."""
    cancelled = await _ended(call)
    if cancelled is not None:
        raise cancelled
    failure = call.future.exception()
    if failure is not None:
        raise_in_coroutine(failure)
    return call.future.result()


async def _ended(call: Call[Any]) -> asyncio.CancelledError | None:
    """Wait for the end of a call, and return the last cancellation of this task meanwhile."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set)

    call.future.add_done_callback(wake)
    cancelled: asyncio.CancelledError | None = None
    while not ended.is_set():
        try:
            await ended.wait()
        except asyncio.CancelledError as error:
            cancelled = error
            call.cancel()
    return cancelled


class _Block(Generic[V]):
    """A block of an asyncio task in a context manager of Trio.  If Trio cancels it, the task is cancelled."""

    def __init__(self, thread: TrioThread, manager: Callable[[], AbstractAsyncContextManager[V]]) -> None:
        self._thread = thread
        self._manager = manager
        self._is_in = False
        self._has_left = False
        self._was_interrupted = False

    async def __aenter__(self) -> V:
        refuse_in_trio()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancellations = task.cancelling()
        loop = asyncio.get_running_loop()

        def interrupted() -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._interrupt)

        self._hosted = HostedBlock(self._thread, self._manager, interrupted)
        entered = asyncio.Event()
        self._hosted.entered.add_done_callback(lambda _: loop.call_soon_threadsafe(entered.set))
        try:
            await entered.wait()
        except asyncio.CancelledError:
            self._hosted.abandon()
            await _ended(self._hosted.call)
            raise
        failure = self._hosted.entered.exception()
        if failure is not None:
            raise_in_coroutine(failure)
        value = self._hosted.entered.result()
        self._is_in = True
        if self._was_interrupted:
            self._task.cancel()
        return value

    def _interrupt(self) -> None:
        """Cancel the task, once it is in the block."""
        if not self._has_left:
            self._was_interrupted = True
            if self._is_in:
                self._task.cancel()

    async def __aexit__(
        self, _class: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        self._is_in, self._has_left = False, True
        if self._thread.is_in_child:
            return False  # The node continues in the parent.
        self._hosted.leave(error if isinstance(error, Exception) else None)
        cancelled: BaseException | None = await _ended(self._hosted.call)
        is_cancelled = cancelled is not None or isinstance(error, asyncio.CancelledError)
        if self._was_interrupted and self._task.uncancel() <= self._cancellations:
            is_cancelled = False
        failure = self._hosted.call.future.exception()
        if is_cancelled:
            if cancelled is not None and not isinstance(error, asyncio.CancelledError):
                raise cancelled
            return False
        if failure is not None and failure is not error:
            raise_in_coroutine(failure)
        return isinstance(error, asyncio.CancelledError)
