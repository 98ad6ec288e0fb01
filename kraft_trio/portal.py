"""A thread that runs Trio, in which other threads make calls and enter context managers."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from typing import Any, Final, Generic, ParamSpec, TypeVar, TypeVarTuple
from uuid import UUID

import trio

from kraft_trio.config import NodeConfig
from kraft_trio.errors import KraftError, NodeClosedError, NotAppendedError, OutcomeUnknownError
from kraft_trio.forked import refuse_in_child, when_forked
from kraft_trio.messages import QuorumView, Staleness
from kraft_trio.metrics.node_metrics import NodeMetrics
from kraft_trio.node import Node
from kraft_trio.protocol.types import ReplicaKey, VersionRange
from kraft_trio.surfacing import StopIterationRaised

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")
P = ParamSpec("P")
Args = TypeVarTuple("Args")

END: Final = object()
"""What `next_of` returns after the last item."""


def takes_arguments_of(function: Callable[..., object]) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Give a function the parameters of this one.  Calls with other arguments raise TypeError."""

    def decorate(own: Callable[P, V]) -> Callable[P, V]:
        returned = inspect.signature(own).return_annotation
        signature = inspect.signature(function).replace(return_annotation=returned)

        @wraps(own)
        def checked(*arguments: P.args, **options: P.kwargs) -> V:
            try:
                signature.bind(*arguments, **options)
            except TypeError as error:
                raise TypeError(f"{own.__name__}() {error}") from None
            return own(*arguments, **options)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return checked

    return decorate


class Call(Generic[V]):
    """An asynchronous function that runs in the thread.  `future` has its result or error."""

    def __init__(self, thread: TrioThread, function: Callable[[], Awaitable[V]]) -> None:
        self.future: Future[V] = Future()
        self.has_begun = False
        self._thread = thread
        self._function = function
        self._scope = trio.CancelScope()

    def cancel(self) -> None:
        """Cancel the Trio task.  The future is done once it has ended."""
        self._thread.soon(self._scope.cancel)

    async def run(self) -> None:
        """The Trio task.  Only the cancellation of the whole thread comes out of it."""
        self.has_begun = True
        with self._scope:
            try:
                result = await self._function()
            except trio.Cancelled:
                raise
            except StopIterationRaised as error:
                self.future.set_exception(error.__cause__)
            except BaseException as error:
                self.future.set_exception(error)
            else:
                self.future.set_result(result)
        if not self.future.done():
            self.future.set_exception(CancelledError())

    def abandon(self) -> None:
        """The thread has ended, perhaps without the task."""
        with suppress(InvalidStateError):
            self.future.set_exception(NodeClosedError("the node's thread has ended"))


def refuse_in_trio() -> None:
    """Raises RuntimeError in a Trio task, which would stop its event loop.

    The state machine of a node in a thread is called in that node's tasks, and would wait for its own end.  Another
    node of the process may need this loop, too: as its leader, or in its own state machine.
    """
    if trio.lowlevel.in_trio_task():
        raise RuntimeError(
            "a node of kraft_trio.sync or kraft_trio.aio was called in a Trio task, whose event loop would wait for "
            "it; expected another thread. In Trio, use kraft_trio.open_node. A state machine cannot call a node."
        )


class TrioThread:
    """Runs Trio from `start` to `stop`.  `start`, `submit` and `read` raise RuntimeError in a Trio task."""

    def __init__(self, name: str) -> None:
        self._calls: set[Call[Any]] = set()
        self.hosted: set[HostedBlock[Any]] = set()
        """The blocks of other threads that have not ended."""
        self.is_ending = False
        self._lock = threading.Lock()
        self.is_in_child = False
        """Whether this is a copy in a forked child, where the thread does not exist."""
        when_forked(self, TrioThread._lose)
        self._started: Future[tuple[trio.lowlevel.TrioToken, trio.Nursery]] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        refuse_in_trio()
        self._thread.start()
        self._token, self._nursery = self._started.result()

    def stop(self) -> None:
        """Cancel what is left, leave the blocks that are hosted, and wait for the end of the thread."""
        if self.is_in_child:
            return
        self.soon(self._end)
        self._thread.join()

    def _end(self) -> None:
        self.is_ending = True
        for block in self.hosted:
            block.left.set()
        self._nursery.cancel_scope.cancel()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            if self._started.done():
                raise
            # Trio itself could not start, for example for want of descriptors.
            self._started.set_exception(error)
        finally:
            with self._lock:
                left, self._calls = self._calls, set()
            for call in left:
                call.abandon()

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._started.set_result((trio.lowlevel.current_trio_token(), nursery))
            await trio.sleep_forever()

    def soon(self, function: Callable[[*Args], object], *args: *Args) -> None:
        """Call a function in the thread soon, unless the thread has ended."""
        if self.is_in_child:
            return
        try:
            self._token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            pass

    def submit(self, function: Callable[[], Awaitable[V]]) -> Call[V]:
        """Begin to run an asynchronous function in a task of the thread."""
        self._refuse()
        return self.begin(function)

    def _lose(self) -> None:
        self.is_in_child = True

    def _refuse(self) -> None:
        """Raises RuntimeError where no call can be waited for."""
        if self.is_in_child:
            refuse_in_child("a node of kraft_trio.sync or kraft_trio.aio")
        refuse_in_trio()

    def begin(self, function: Callable[[], Awaitable[V]]) -> Call[V]:
        """Like `submit`, also in a Trio task: for callers that do not wait there."""
        call = Call(self, function)
        if self.is_in_child:
            call.abandon()
            return call
        with self._lock:
            self._calls.add(call)
        call.future.add_done_callback(lambda _: self._calls.discard(call))
        try:
            self._token.run_sync_soon(self._begin, call)
        except trio.RunFinishedError:
            call.abandon()
        return call

    def _begin(self, call: Call[Any]) -> None:
        try:
            self._nursery.start_soon(call.run)
        except RuntimeError:  # the nursery has closed, and the thread is about to end
            call.abandon()

    def read(self, function: Callable[[], V]) -> V:
        """Call a function in the thread, and wait for its result: one turn of the thread's loop."""
        self._refuse()
        try:
            return trio.from_thread.run_sync(function, trio_token=self._token)
        except trio.RunFinishedError:
            raise NodeClosedError("the node's thread has ended") from None


class HostedBlock(Generic[V]):
    """A Trio context manager that a block of another thread is in.  A task of the thread enters and leaves it."""

    def __init__(
        self,
        thread: TrioThread,
        manager: Callable[[], AbstractAsyncContextManager[V]],
        interrupted: Callable[[], object] = lambda: None,
    ) -> None:
        """`interrupted` is called in the thread when Trio cancels the block."""
        self.entered: Future[V] = Future()
        self._thread = thread
        self._manager = manager
        self._interrupted = interrupted
        self.left = trio.Event()
        """Set when the block has ended, or the thread is to end."""
        self._error: Exception | None = None
        self.call = thread.submit(self._run)
        """Ends when the context manager has been left, and with its error."""
        self.call.future.add_done_callback(self._has_ended)

    def leave(self, error: Exception | None) -> None:
        """Tell the context manager that the block has ended, and with which error, if any."""
        self._error = error
        self._thread.soon(self.left.set)

    def abandon(self) -> None:
        """Leave the context manager, because nobody will enter the block."""
        self.leave(None)
        self.call.cancel()

    async def _run(self) -> None:
        self._thread.hosted.add(self)
        if self._thread.is_ending:
            self.left.set()
        try:
            await self._run_hosted()
        finally:
            self._thread.hosted.discard(self)

    async def _run_hosted(self) -> None:
        async with self._manager() as value:
            self.entered.set_result(value)
            try:
                await self.left.wait()
            except trio.Cancelled:
                self._interrupted()
                with trio.CancelScope(shield=True):
                    await self.left.wait()
                if self._error is None:
                    raise
            if self._error is not None:
                raise self._error

    def _has_ended(self, future: Future[None]) -> None:
        if not self.entered.done():
            self.entered.set_exception(future.exception() or CancelledError())


async def next_of(generator: AsyncGenerator[V, None]) -> V | object:
    """The next item of an asynchronous generator, or END."""
    return await anext(generator, END)


class NodeInThread(Generic[T, R]):
    """What the facades of a node share: everything that does not wait."""

    def __init__(self, thread: TrioThread, node: Node[T, R]) -> None:
        """Use `open_node`."""
        self._thread = thread
        self._node = node

    @property
    def config(self) -> NodeConfig:
        return self._node.config

    @property
    def cluster_id(self) -> str:
        return self._node.cluster_id

    @property
    def key(self) -> ReplicaKey:
        return self._node.key

    @property
    def view(self) -> QuorumView:
        """Like `Node.view`."""
        return self._node.view

    @property
    def high_watermark(self) -> int | None:
        """Like `Node.high_watermark`."""
        return self._node.high_watermark

    @property
    def skipped_records(self) -> int:
        """Like `Node.skipped_records`."""
        return self._node.skipped_records

    @property
    def stale(self) -> Staleness:
        """Like `Node.stale`.  Raises NodeClosedError if the node has stopped."""
        return self._thread.read(lambda: self._node.stale)

    @property
    def metrics(self) -> MetricsInThread:
        """Like `Node.metrics`, without the registry."""
        return MetricsInThread(self._thread, self._thread.read(lambda: self._node.metrics))

    def new_request_id(self) -> UUID:
        """Like `Node.new_request_id`."""
        return self._node.new_request_id()

    def observer_supports(self, observer: ReplicaKey, kraft_versions: VersionRange | None) -> None:
        """Like `Node.observer_supports`."""
        self._thread.read(lambda: self._node.observer_supports(observer, kraft_versions))


def not_executed(call: Call[Any], request_id: UUID | None) -> KraftError:
    """What `execute` raises if the thread has ended before its call."""
    if call.has_begun:
        return OutcomeUnknownError("execute: the node stopped before it knew the result", request_id=request_id)
    return NotAppendedError("execute: the node has stopped")


class MetricsInThread:
    """The metrics of a node in another thread."""

    def __init__(self, thread: TrioThread, metrics: NodeMetrics) -> None:
        self._thread = thread
        self._metrics = metrics

    def values(self) -> dict[str, float | str]:
        """Like `NodeMetrics.values`."""
        return self._thread.read(self._metrics.values)

    def exposition(self) -> bytes:
        """Like `NodeMetrics.exposition`."""
        return self._thread.read(self._metrics.exposition)
