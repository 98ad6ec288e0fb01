"""What a state machine raises comes out of `open_node` as it is: the same object, with its cause and context."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from kraft_trio import (
    BadRecordError,
    CommandFailed,
    Committed,
    Node,
    NodeClosedError,
    NodeConfig,
    OutcomeUnknownError,
    QuorumView,
    Record,
    StorageError,
    aio,
    open_node,
    run_node,
    sync,
)
from tests.support.single_voter import single_voter


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    return single_voter(tmp_path)


class Odd(ValueError):
    """Compares equal to every other one."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Frozen(Exception):
    reason: str


class Interrupted(BaseException):
    """No Exception."""


def caused() -> Exception:
    error = KeyError("mine")
    error.__cause__, error.__context__ = OSError("the cause"), ZeroDivisionError("the context")
    error.__suppress_context__ = False
    error.add_note("a note")
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "exception": lambda: ValueError("mine"),
    "with a cause and a note": caused,
    "equal to others": lambda: Odd("mine"),
    "frozen": lambda: Frozen("mine"),
    "group of one": lambda: ExceptionGroup("mine", [ValueError("one")]),
    "group of two": lambda: ExceptionGroup("mine", [ValueError("one"), KeyError("two")]),
    "nested groups": lambda: ExceptionGroup("mine", [ExceptionGroup("inner", [ValueError("one")])]),
    "group of a refusal": lambda: ExceptionGroup("mine", [CommandFailed("refused")]),
    "group of no exceptions": lambda: BaseExceptionGroup("mine", [Interrupted("one")]),
    "no exception": lambda: Interrupted("mine"),
    "StopIteration": lambda: StopIteration("mine"),
    "StopAsyncIteration": lambda: StopAsyncIteration("mine"),
    "GeneratorExit": lambda: GeneratorExit("mine"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("mine"),
    "SystemExit": lambda: SystemExit(7),
    "BadRecordError": lambda: BadRecordError("mine"),
    "NodeClosedError": lambda: NodeClosedError("of another node"),
    "OutcomeUnknownError": lambda: OutcomeUnknownError("of another node"),
    "StorageError": lambda: StorageError("mine"),
}


@attrs.define
class Places:
    """Raises the error in one place."""

    error: BaseException
    place: str

    def at(self, place: str) -> None:
        if self.place == place:
            raise self.error

    def save(self) -> list[bytes]:
        self.at("save")
        return [b"state"]

    def on_leader_change(self, view: QuorumView) -> None:
        self.at("on_leader_change")

    async def read(self, records: AsyncIterator[object]) -> None:
        self.at("load")
        async for _ in records:
            self.at("load, half way")
        self.at("load, at its end")


class Raising(Places):
    def apply(self, record: Committed[bytes]) -> int:
        self.at("apply")
        return len(record.value)

    async def load(self, records: AsyncIterator[Record]) -> None:
        await self.read(records)


class RaisingBatches(Places):
    """The same without values and results."""

    async def on_commit(self, records: object) -> None:
        self.at("apply")

    async def load(self, end_offset: int, records: AsyncIterator[object]) -> None:
        await self.read(records)


async def use_in_trio(config: NodeConfig, machine: object) -> None:
    async with open_node(config, state_machine=machine) as node:  # type: ignore[call-overload]
        await node.append([b"value"])
        await trio.sleep_forever()


async def use_in_asyncio(config: NodeConfig, machine: object) -> None:
    async with aio.open_node(config, state_machine=machine) as node:  # type: ignore[call-overload]
        await node.append([b"value"])
        await asyncio.Event().wait()


def use_in_a_thread(config: NodeConfig, machine: object) -> None:
    with sync.open_node(config, state_machine=machine) as node:  # type: ignore[call-overload]
        node.append([b"value"])
        for _ in node.changes():
            pass


def of_trio(config: NodeConfig, machine: object) -> None:
    trio.run(use_in_trio, config, machine)


def of_asyncio(config: NodeConfig, machine: object) -> None:
    asyncio.run(use_in_asyncio(config, machine))


USES = {"trio": of_trio, "aio": of_asyncio, "sync": use_in_a_thread}
PLACES = ["apply", "save", "load", "load, half way", "load, at its end", "on_leader_change"]


def with_a_snapshot(config: NodeConfig) -> None:
    with sync.open_node(config, state_machine=Raising(ValueError(), "nowhere")) as node:
        node.append([b"value"])
        assert node.take_snapshot() is not None


def snapshots_at_once(config: NodeConfig) -> NodeConfig:
    return attrs.evolve(config, snapshot_max_new_bytes=1)


def check(use: Callable[[NodeConfig, object], None], config: NodeConfig, machine: Places) -> None:
    error = machine.error
    before = (error.__cause__, error.__context__, error.__suppress_context__)
    raised: BaseException | None = None
    try:
        use(config, machine)
    except BaseException as caught:
        raised = caught
    if isinstance(error, StopIteration) and use is not use_in_a_thread:
        # No coroutine can raise it.
        assert type(raised).__mro__[1:3] == (RuntimeError, Exception), raised
        assert str(raised) == "the state machine raised StopIteration('mine')"
        assert raised is not None
        raised = raised.__cause__
    assert raised is error
    assert (error.__cause__, error.__context__, error.__suppress_context__) == before
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert "at" in frames, "the traceback begins in the state machine"


@pytest.mark.rotating(3)
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("use", USES)
def test_what_apply_raises_comes_out_as_it_is(config: NodeConfig, use: str, kind: str) -> None:
    check(USES[use], config, Raising(ERRORS[kind](), "apply"))


@pytest.mark.rotating(3)
@pytest.mark.parametrize("place", PLACES[1:])
@pytest.mark.parametrize("use", USES)
def test_so_does_what_other_methods_raise(config: NodeConfig, use: str, place: str) -> None:
    if place.startswith("load"):
        with_a_snapshot(config)
    if place == "save":
        config = snapshots_at_once(config)
    for kind in ("with a cause and a note", "group of one", "StopIteration", "StopAsyncIteration"):
        if kind != "StopIteration" or "load" not in place:  # a coroutine cannot even begin to raise it
            check(USES[use], config, Raising(ERRORS[kind](), place))


@pytest.mark.parametrize("use", USES)
def test_so_does_what_a_batch_state_machine_raises(config: NodeConfig, use: str) -> None:
    with_a_snapshot(config)
    for kind in ("with a cause and a note", "group of one"):
        for place in ("apply", "save", "load"):
            check(USES[use], snapshots_at_once(config), RaisingBatches(ERRORS[kind](), place))


def in_trio(config: NodeConfig, machine: object) -> None:
    async def use() -> None:
        async with open_node(config, state_machine=machine) as node:  # type: ignore[call-overload]
            await node.append([b"value"])
            await caught(node.take_snapshot)

    trio.run(use)


def in_asyncio(config: NodeConfig, machine: object) -> None:
    async def use() -> None:
        async with aio.open_node(config, state_machine=machine) as node:  # type: ignore[call-overload]
            await node.append([b"value"])
            await caught(node.take_snapshot)

    asyncio.run(use())


def in_a_thread(config: NodeConfig, machine: object) -> None:
    with sync.open_node(config, state_machine=machine) as node:  # type: ignore[call-overload]
        node.append([b"value"])
        try:
            node.take_snapshot()
        except BaseException as error:
            raise Caught(error) from None


class Caught(Exception):
    """In the block, so that no nursery sees the error."""


async def caught(call: Callable[[], Awaitable[object]]) -> None:
    try:
        await call()
    except BaseException as error:
        raise Caught(error) from None


@pytest.mark.rotating(3)
@pytest.mark.parametrize("kind", ["with a cause and a note", "group of one", "StopIteration"])
@pytest.mark.parametrize("use", [in_trio, in_asyncio, in_a_thread])
def test_so_does_what_save_raises_in_a_call(
    config: NodeConfig, use: Callable[[NodeConfig, object], None], kind: str
) -> None:
    error = ERRORS[kind]()
    with pytest.raises(Caught) as caught:
        use(config, Raising(error, "save"))
    [raised] = caught.value.args
    if isinstance(error, StopIteration) and use is not in_a_thread:
        raised = raised.__cause__
    assert raised is error


def test_run_node_raises_it_alike(config: NodeConfig) -> None:
    for kind in ("with a cause and a note", "group of one"):
        error = ERRORS[kind]()

        @asynccontextmanager
        async def serving(node: Node[bytes, int]) -> AsyncIterator[None]:
            await node.append([b"value"])
            yield

        with pytest.raises(type(error)) as caught:
            trio.run(partial(run_node, config, state_machine=Raising(error, "apply"), serving=serving))
        assert caught.value is error


async def test_a_group_with_a_cancellation_stays_cancelled(config: NodeConfig) -> None:
    """A nursery in `load` groups them when the node ends meanwhile."""
    await trio.to_thread.run_sync(with_a_snapshot, config)
    begun = trio.Event()

    class Loading(Raising):
        async def load(self, records: AsyncIterator[Record]) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.cleaning_up)
                begun.set()
                await trio.sleep_forever()

        async def cleaning_up(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise self.error

    error = KeyError("in the cleanup")
    scope = trio.CancelScope()
    with pytest.raises(ExceptionGroup) as caught, scope:  # noqa: PT012
        async with open_node(config, state_machine=Loading(error, "")):
            await begun.wait()
            scope.cancel()
    assert list(caught.value.exceptions) == [error]
