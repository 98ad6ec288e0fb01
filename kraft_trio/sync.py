"""A node for plain threads: the names and errors of `kraft_trio`, while the node runs Trio in a thread of its own.

Calls block.  Any thread may make them, and several at once.  The state machine is called in the node's thread.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack, cast, overload
from uuid import UUID

import trio

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
from kraft_trio.surfacing import raise_as_it_is

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")

__all__ = ["Node", "ensure_formatted", "fail_after", "open_node"]

_deadline: ContextVar[float | None] = ContextVar("_deadline", default=None)
"""When calls of this thread raise TimeoutError, as `time.monotonic` counts."""


@contextmanager
def fail_after(seconds: float) -> Iterator[None]:
    """Calls of nodes in the block raise TimeoutError when the time is over.  What they did is cancelled before that.

    As after any cancelled call, an append or a command may or may not take effect.
    """
    now, outer = time.monotonic(), _deadline.get()
    token = _deadline.set(now + seconds if outer is None else min(outer, now + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


class Node(NodeInThread[T, R]):
    """A running node.  Each call does what that of `kraft_trio.Node` does."""

    def wait_for_leader(self) -> QuorumView:
        """Like `kraft_trio.Node.wait_for_leader`."""
        return self._call(self._node.wait_for_leader)

    def changes(self) -> Generator[QuorumView, None, None]:
        """Like `kraft_trio.Node.changes`."""
        return self._items(self._node.changes())

    @contextmanager
    def leadership(self) -> Iterator[Term]:
        """Like `kraft_trio.Node.leadership`, but nothing cancels the block: look at `term.has_ended`.

        `term.was_interrupted` then tells whether the leadership ended before the block did.
        """
        with _Block(self._thread, self._node.leadership) as term:
            yield term

    def resign(self) -> None:
        """Like `kraft_trio.Node.resign`."""
        self._call(self._node.resign)

    def transfer_leadership(self, to: int, *, timeout_ms: int = 30_000) -> int:
        """Like `kraft_trio.Node.transfer_leadership`."""
        return self._call(partial(self._node.transfer_leadership, to, timeout_ms=timeout_ms))

    def append(self, values: Sequence[T | NewRecord], *, epoch: int | None = None) -> range:
        """Like `kraft_trio.Node.append`."""
        return self._call(partial(self._node.append, values, epoch=epoch))

    def execute(self, command: T | NewRecord, request_id: UUID | None = None) -> R:
        """Like `kraft_trio.Node.execute`."""
        call = self._thread.submit(partial(self._node.execute, command, request_id))
        try:
            return _result(call)
        except NodeClosedError as error:
            raise not_executed(call, request_id) from error

    def committed(self, from_offset: int = 0) -> Generator[Committed[T], None, None]:
        """Like `kraft_trio.Node.committed`."""
        return self._items(self._node.committed(from_offset))

    def wait_until_applied(self, offset: int) -> None:
        """Like `kraft_trio.Node.wait_until_applied`."""
        self._call(partial(self._node.wait_until_applied, offset))

    def read_barrier(self) -> int:
        """Like `kraft_trio.Node.read_barrier`."""
        return self._call(self._node.read_barrier)

    def take_snapshot(self) -> OffsetAndEpoch | None:
        """Like `kraft_trio.Node.take_snapshot`."""
        return self._call(self._node.take_snapshot)

    def _call(self, function: Callable[[], Awaitable[V]]) -> V:
        return _result(self._thread.submit(function))

    def _items(self, generator: AsyncGenerator[V, None]) -> Generator[V, None, None]:
        try:
            while (item := self._call(partial(next_of, generator))) is not END:
                yield cast(V, item)
        finally:
            with suppress(NodeClosedError):
                _wait(self._thread.begin(generator.aclose))


@overload
def open_node(
    config: NodeConfig, *, state_machine: StateMachine[bytes, R], **options: Unpack[Options]
) -> AbstractContextManager[Node[bytes, R]]: ...
@overload
def open_node(
    config: NodeConfig, *, serde: Serde[T], state_machine: StateMachine[T, R], **options: Unpack[Options]
) -> AbstractContextManager[Node[T, R]]: ...
@overload
def open_node(config: NodeConfig, **options: Unpack[BatchOptions]) -> AbstractContextManager[Node[bytes, None]]: ...
@overload
def open_node(
    config: NodeConfig, *, serde: Serde[T], **options: Unpack[BatchOptions]
) -> AbstractContextManager[Node[T, None]]: ...
@takes_arguments_of(trio_node.open_node)
def open_node(config: NodeConfig, **options: Any) -> AbstractContextManager[Node[Any, Any]]:
    """Open a node as `kraft_trio.open_node` does, in a thread of its own, until the block is left.

    A fault of the running node is raised when the block is left.  Before that, calls in the block fail.
    """
    return _Opened(partial(trio_node.open_node, config, **options))


class _Opened(AbstractContextManager[Node[Any, Any]]):
    """The block in which a node runs in a thread."""

    def __init__(self, open_in_thread: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._thread = TrioThread("kraft node")
        self._block = _Block(self._thread, open_in_thread)

    def __enter__(self) -> Node[Any, Any]:
        self._thread.start()
        try:
            return Node(self._thread, self._block.__enter__())
        except BaseException:
            self._thread.stop()
            raise

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._block.__exit__(cls, error, traceback)
        finally:
            self._thread.stop()


def ensure_formatted(
    config: NodeConfig, cluster_id: str, first_voters: Mapping[int, Endpoint | str] | None = None
) -> bool:
    """Like `kraft_trio.ensure_formatted`."""
    refuse_in_trio()
    return trio.run(formatting.ensure_formatted, config, cluster_id, first_voters)


def _result(call: Call[V]) -> V:
    """Wait for a call.  When the time is over, or this thread is interrupted, cancel the call and wait for its end."""
    deadline = _deadline.get()
    try:
        wait([call.future], None if deadline is None else max(0.0, deadline - time.monotonic()))
    except BaseException:
        call.cancel()
        _wait(call)
        raise
    if not call.future.done():
        call.cancel()
        _wait(call)
        if isinstance(call.future.exception(), CancelledError):
            raise TimeoutError("the time of fail_after is over")
    failure = call.future.exception()
    if failure is not None:
        raise_as_it_is(failure)
    return call.future.result()


def _wait(call: Call[Any]) -> None:
    """Wait for the end of a call, however long it takes.

    The garbage collector closes a generator in any thread, even in the node's: nothing waits there.
    """
    if not trio.lowlevel.in_trio_run():
        wait([call.future])


class _Block(Generic[V]):
    """A block of this thread in a context manager of Trio.  A class: no generator lets StopIteration out."""

    def __init__(self, thread: TrioThread, manager: Callable[[], AbstractAsyncContextManager[V]]) -> None:
        self._thread = thread
        self._manager = manager

    def __enter__(self) -> V:
        self._hosted = HostedBlock(self._thread, self._manager)
        try:
            return _entered(self._hosted)
        except BaseException:
            self._hosted.abandon()
            _wait(self._hosted.call)
            raise

    def __exit__(
        self, _cls: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._thread.is_in_child:
            return  # The node continues in the parent.
        left = error if isinstance(error, Exception) else None
        self._hosted.leave(left)
        _wait(self._hosted.call)
        failure = self._hosted.call.future.exception()
        if failure is not None and failure is not left:
            raise_as_it_is(failure)


def _entered(hosted: HostedBlock[V]) -> V:
    deadline = _deadline.get()
    wait([hosted.entered], None if deadline is None else max(0.0, deadline - time.monotonic()))
    if not hosted.entered.done():
        raise TimeoutError("the time of fail_after is over")
    failure = hosted.entered.exception()
    if failure is not None:
        raise_as_it_is(failure)
    return hosted.entered.result()
