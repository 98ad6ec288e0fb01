"""A state machine that calls its node gets an error: the call would wait for the state machine itself."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import trio

import kraft_trio
from kraft_trio import Committed, NodeConfig, QuorumView, Record, aio, open_node, random_uuid, sync
from tests.support.public_calls import waits
from tests.support.single_voter import single_voter


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    return single_voter(tmp_path)


class Calling:
    """Has a function called in one of its methods, and keeps what that raises."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.calls: dict[str, Callable[[], object]] = {}
        self.raised: dict[str, BaseException | None] = {}
        self.has_called = threading.Event()

    def at(self, place: str) -> None:
        if place != self.place or not self.calls or self.raised:
            return
        for name, call in self.calls.items():
            self.raised[name] = None
            try:
                call()
            except BaseException as error:
                self.raised[name] = error
        self.has_called.set()

    def apply(self, record: Committed[bytes]) -> int:
        self.at("apply")
        return len(record.value)

    def save(self) -> Iterator[bytes]:
        self.at("save")
        return self.each()

    def each(self) -> Iterator[bytes]:
        self.at("a record of save")
        yield b"state"

    async def load(self, records: AsyncIterator[Record]) -> None:
        pass

    def on_leader_change(self, view: QuorumView) -> None:
        self.at("on_leader_change")


OBSERVER = kraft_trio.ReplicaKey(7, UUID(int=1 << 100))

NEVER_WAIT = {"config", "cluster_id", "key", "view", "high_watermark", "skipped_records", "new_request_id"}
"""What a state machine may ask its node: nothing waits."""

SYNC: dict[str, Callable[[sync.Node[bytes, int]], object]] = {
    "append": lambda node: node.append([b"a"]),
    "changes": lambda node: next(node.changes()),
    "committed": lambda node: next(node.committed()),
    "execute": lambda node: node.execute(b"a"),
    "leadership": lambda node: node.leadership().__enter__(),
    "metrics": lambda node: node.metrics,
    "observer_supports": lambda node: node.observer_supports(OBSERVER, None),
    "read_barrier": lambda node: node.read_barrier(),
    "resign": lambda node: node.resign(),
    "stale": lambda node: node.stale,
    "take_snapshot": lambda node: node.take_snapshot(),
    "transfer_leadership": lambda node: node.transfer_leadership(1),
    "wait_for_leader": lambda node: node.wait_for_leader(),
    "wait_until_applied": lambda node: node.wait_until_applied(0),
}


async def lead(node: aio.Node[bytes, int]) -> None:
    async with node.leadership():
        pass


async def first(items: Any) -> None:
    async with aclosing(items) as iterator:
        await anext(iterator)


AIO: dict[str, Callable[[aio.Node[bytes, int]], Awaitable[object] | None]] = {
    "append": lambda node: node.append([b"a"]),
    "changes": lambda node: first(node.changes()),
    "committed": lambda node: first(node.committed()),
    "execute": lambda node: node.execute(b"a"),
    "leadership": lead,
    "metrics": lambda node: node.metrics and None,
    "observer_supports": lambda node: node.observer_supports(OBSERVER, None),
    "read_barrier": lambda node: node.read_barrier(),
    "resign": lambda node: node.resign(),
    "stale": lambda node: node.stale and None,
    "take_snapshot": lambda node: node.take_snapshot(),
    "transfer_leadership": lambda node: node.transfer_leadership(1),
    "wait_for_leader": lambda node: node.wait_for_leader(),
    "wait_until_applied": lambda node: node.wait_until_applied(0),
}


def public_names(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_no_method_is_forgotten() -> None:
    assert public_names(sync.Node) == NEVER_WAIT | set(SYNC)
    assert public_names(aio.Node) == NEVER_WAIT | set(AIO)
    assert {name for name in public_names(kraft_trio.Node) if waits(getattr(kraft_trio.Node, name))} == (
        WAIT_FOR_THE_STATE_MACHINE | DO_NOT
    )


def in_asyncio(call: Callable[[aio.Node[bytes, int]], Awaitable[object] | None], node: aio.Node[bytes, int]) -> None:
    async def main() -> None:
        waiting = call(node)
        if waiting is not None:
            await waiting

    asyncio.run(main())


def check(machine: Calling, names: set[str]) -> None:
    assert set(machine.raised) == names
    for name, error in machine.raised.items():
        assert type(error) is RuntimeError, name
        assert str(error).startswith("a node of kraft_trio.sync or kraft_trio.aio was called in a Trio task"), name


PLACES = ["apply", "save", "a record of save", "on_leader_change"]


def change(place: str, node: sync.Node[bytes, int]) -> None:
    """Have the node call its state machine there."""
    if place == "on_leader_change":
        node.resign()
    node.append([b"value"])
    if "save" in place:
        node.take_snapshot()


@pytest.mark.parametrize("place", PLACES)
def test_sync_refuses_every_call(config: NodeConfig, place: str) -> None:
    machine = Calling(place)
    with sync.open_node(config, state_machine=machine) as node:
        node.wait_for_leader()
        for name, call in SYNC.items():
            machine.calls[name] = lambda call=call: call(node)  # type: ignore[misc]
        for name in NEVER_WAIT:
            machine.calls.setdefault(f"may {name}", lambda name=name: getattr(node, name))  # type: ignore[misc]
        change(place, node)
        machine.has_called.wait(60)
        allowed = {name for name in machine.raised if name.startswith("may ")}
        assert [machine.raised.pop(name) for name in allowed] == [None] * len(NEVER_WAIT)
        check(machine, set(SYNC))
        assert node.execute(b"it works still") == 14


def test_aio_refuses_every_call(config: NodeConfig) -> None:
    """In an event loop of its own, which is the only way that `apply` could wait."""
    machine = Calling("apply")

    async def main() -> None:
        async with aio.open_node(config, state_machine=machine) as node:
            for name, call in AIO.items():
                machine.calls[name] = lambda call=call: in_asyncio(call, node)  # type: ignore[misc]
            await node.append([b"value"])
            assert await node.execute(b"it works still") == 14

    asyncio.run(main())
    check(machine, set(AIO))


def test_load_may_not_wait_for_a_node_of_asyncio(config: NodeConfig) -> None:
    with sync.open_node(config, state_machine=Calling("")) as node:
        node.append([b"value"])
        node.take_snapshot()
    has_node = threading.Event()
    nodes: list[aio.Node[bytes, int]] = []

    class Loading(Calling):
        async def load(self, records: AsyncIterator[Record]) -> None:
            await trio.to_thread.run_sync(has_node.wait)
            for name, call in AIO.items():
                self.raised[name] = None
                try:
                    waiting = call(nodes[0])
                    if waiting is not None:
                        await waiting
                except RuntimeError as error:
                    self.raised[name] = error

    machine = Loading("")

    async def main() -> None:
        async with aio.open_node(config, state_machine=machine) as node:
            nodes.append(node)
            has_node.set()
            assert await node.execute(b"it works still") == 14

    asyncio.run(main())
    check(machine, set(AIO))


def test_another_node_is_refused_too(tmp_path: Path) -> None:
    """It may have this one as its leader, or wait for it in its own state machine."""
    machine = Calling("apply")
    one, two = single_voter(tmp_path / "one"), single_voter(tmp_path / "two")
    with sync.open_node(two, state_machine=Calling("")) as other, sync.open_node(one, state_machine=machine) as node:
        machine.calls["execute"] = lambda: other.execute(b"a")
        node.append([b"value"])
        node.execute(b"value")
    check(machine, {"execute"})


async def test_a_task_of_trio_is_refused(config: NodeConfig, tmp_path: Path) -> None:
    said = "called in a Trio task"
    with pytest.raises(RuntimeError, match=said):
        sync.open_node(config).__enter__()
    with pytest.raises(RuntimeError, match=said):
        sync.ensure_formatted(config, random_uuid())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kraft node")]

    def use() -> None:
        with sync.open_node(config, state_machine=Calling("")) as node:
            assert node.execute(b"value") == 5

    await trio.to_thread.run_sync(use)


def test_a_task_of_asyncio_may_block(config: NodeConfig) -> None:
    """As in a notebook, whose cells run in a task."""

    async def main() -> int:
        with sync.open_node(config, state_machine=Calling("")) as node:
            return node.execute(b"value")

    assert asyncio.run(main()) == 5


def test_a_generator_that_is_collected_in_the_node_is_closed(config: NodeConfig) -> None:
    """The garbage collector runs in any thread.  Closing a generator there would wait for the thread itself."""

    class Collecting(Calling):
        def apply(self, record: Committed[bytes]) -> int:
            return gc.collect()

    with sync.open_node(config, state_machine=Collecting("")) as node:
        gc.disable()
        try:
            circle: list[object] = []
            committed = node.committed()
            node.append([b"value"])
            next(committed)
            circle.append(circle)
            circle.append(committed)
            del committed, circle
            node.execute(b"value")
        finally:
            gc.enable()
        assert node.execute(b"value") >= 0


WAIT_FOR_THE_STATE_MACHINE = {"leadership", "execute", "wait_until_applied", "read_barrier", "take_snapshot"}
DO_NOT = {"append", "wait_for_leader", "changes", "committed", "resign", "transfer_leadership"}
"""These wait for the quorum alone."""


class Batches:
    """Calls its node in `on_commit`, in its task or in a nursery."""

    def __init__(self) -> None:
        self.node: kraft_trio.Node | None = None
        self.in_nursery = False
        self.raised: dict[str, BaseException | None] = {}
        self.has_called = trio.Event()

    async def on_commit(self, records: Sequence[Record]) -> None:
        if self.node is None or self.raised:
            return
        for name in sorted(WAIT_FOR_THE_STATE_MACHINE):
            if self.in_nursery:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.call, name)
            else:
                await self.call(name)
        assert self.node is not None
        [offset] = await self.node.append([b"of the state machine"])
        await first(self.node.committed(offset))
        await first(self.node.changes())
        await self.node.wait_for_leader()
        self.has_called.set()

    async def call(self, name: str) -> None:
        node = self.node
        assert node is not None
        self.raised[name] = None
        try:
            if name == "leadership":
                async with node.leadership():
                    pass
            else:
                arguments: dict[str, list[object]] = {"execute": [b"a"], "wait_until_applied": [0]}
                await getattr(node, name)(*arguments.get(name, []))
        except RuntimeError as error:
            self.raised[name] = error

    def save(self) -> list[bytes]:
        return [b"state"]

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        pass


@pytest.mark.parametrize("in_nursery", [False, True])
async def test_a_node_of_trio_refuses_what_waits_for_its_state_machine(config: NodeConfig, in_nursery: bool) -> None:
    machine = Batches()
    async with open_node(config, state_machine=machine) as node:
        machine.node, machine.in_nursery = node, in_nursery
        [offset] = await node.append([b"value"])
        await machine.has_called.wait()
        for name, error in machine.raised.items():
            assert str(error).startswith(f"{name}: called by the node's own state machine"), name
        await node.wait_until_applied(offset)
        assert await node.read_barrier() > offset


async def test_a_task_that_the_state_machine_has_started_may_wait(config: NodeConfig) -> None:
    """In a nursery of somebody else, which `on_commit` does not wait for."""
    applied: list[int] = []

    class Starting(Batches):
        async def on_commit(self, records: Sequence[Record]) -> None:
            if self.node is not None:
                nursery.start_soon(self.wait, records[0].offset)

        async def wait(self, offset: int) -> None:
            assert self.node is not None
            await self.node.wait_until_applied(offset)
            applied.append(offset)
            self.has_called.set()

    machine = Starting()
    async with trio.open_nursery() as nursery, open_node(config, state_machine=machine) as node:
        machine.node = node
        offsets = await node.append([b"value"])
        await machine.has_called.wait()
    assert applied == list(offsets)


def test_properties_are_no_calls() -> None:
    for name in NEVER_WAIT - {"new_request_id"}:
        assert isinstance(inspect.getattr_static(sync.Node, name), property), name
