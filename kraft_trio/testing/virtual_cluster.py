"""A quorum of whole nodes that run the application's state machine, on simulated networks and disks."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, Generic, TypeVar, TypeVarTuple, cast, overload
from uuid import UUID

import trio

from kraft_trio.application.serde import Serde
from kraft_trio.application.state_machine import StateMachine
from kraft_trio.errors import NodeClosedError, OutcomeUnknownError
from kraft_trio.node import Node
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.deterministic import run_deterministically, run_queue
from kraft_trio.simulation.disk.inode import Loss
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.setup import Setup
from kraft_trio.storage.batches.batch import NewRecord

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")
Args = TypeVarTuple("Args")

PATIENCE_S: Final = 60.0
"""How long a call waits by default, in virtual time."""


def run(main: Callable[[*Args], Awaitable[V]], *args: *Args, seed: int = 0) -> V:
    """Run an asynchronous function in virtual time, which passes only while every task waits.

    `seed` determines every random choice, the order of tasks included: the same seed gives the same run.
    """
    return run_deterministically(partial(main, *args), seed=seed)


class VirtualCluster(Generic[T, R]):
    """The nodes of a quorum, the network between them, and their disks.  `open_cluster` makes it.

    Nodes are given by their ids, or as Node.  Calls raise `trio.TooSlowError` after `within_s` of virtual time.
    """

    def __init__(self, simulation: Cluster) -> None:
        self.simulation = simulation
        """The simulator's own cluster, which has more kinds of faults."""

    @property
    def nodes(self) -> dict[int, Node[T, R]]:
        """The nodes that run, by id."""
        return self.simulation.nodes

    @property
    def leader(self) -> Node[T, R] | None:
        """The running node that leads the highest epoch, if any does."""
        return self.simulation.leader()

    @property
    def now_s(self) -> float:
        """Virtual seconds since the cluster was opened."""
        return self.simulation.now_s

    def state_machine(self, node: int | Node[T, R]) -> Any:
        """The state machine of a node's present process, as the factory has made it.  Do not change it."""
        node_id = _id(node)
        self._running(node_id)
        return self.simulation.checked_machines[node_id].machine

    def random(self, name: str) -> random.Random:
        """Random numbers that follow from the seed and this name."""
        return self.simulation.random(f"test/{name}")

    # Calls

    async def execute(
        self,
        command: T | NewRecord,
        request_id: UUID | None = None,
        *,
        on: int | Node[T, R] | None = None,
        within_s: float = PATIENCE_S,
    ) -> R:
        """Call `Node.execute` in the process of a node, by default of the leader, which is waited for.

        Raises OutcomeUnknownError if the process is killed meanwhile.
        """
        return await self._call(on, lambda node: node.execute(command, request_id), within_s, request_id)

    async def read_barrier(self, *, on: int | Node[T, R] | None = None, within_s: float = PATIENCE_S) -> int:
        """Call `Node.read_barrier` in the process of a node, by default of the leader."""
        return await self._call(on, lambda node: node.read_barrier(), within_s)

    async def take_snapshot(self, node: int | Node[T, R], *, within_s: float = PATIENCE_S) -> OffsetAndEpoch | None:
        """Call `Node.take_snapshot` in the process of a node."""
        return await self._call(node, lambda node: node.take_snapshot(), within_s)

    def new_request_id(self) -> UUID:
        """Make an id for `execute` on any node."""
        return next(iter(self.nodes.values())).new_request_id()

    async def _call(
        self,
        on: int | Node[T, R] | None,
        call: Callable[[Node[T, R]], Awaitable[V]],
        within_s: float,
        request_id: UUID | None = None,
    ) -> V:
        """Make a call in a task of the node's process, which is paused and killed with it."""
        outcomes: list[V | Exception] = []
        has_ended = trio.Event()
        scope = trio.CancelScope()

        async def run_call(machine: Machine, node: Node[T, R]) -> None:
            try:
                with scope, machine.in_process():
                    try:
                        outcomes.append(await call(node))
                    except Exception as error:
                        outcomes.append(error)
            finally:
                has_ended.set()

        with trio.fail_after(within_s):
            node_id = (await self.wait_for_leader(within_s=within_s)).config.node_id if on is None else _id(on)
            machine = self.simulation.machines[node_id]
            self.simulation.nursery.start_soon(run_call, machine, self._running(node_id))
            try:
                await has_ended.wait()
            finally:
                scope.cancel()
        if not outcomes:
            raise OutcomeUnknownError(f"node {node_id} was killed before it answered", request_id=request_id)
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]
        return outcomes[0]

    def _running(self, node_id: int) -> Node[T, R]:
        node = self.simulation.machines[node_id].node
        if node is None:
            raise NodeClosedError(f"node {node_id} does not run")
        return cast("Node[T, R]", node)

    # Waiting

    async def wait_for_leader(
        self, *, other_than: Node[T, R] | None = None, within_s: float = PATIENCE_S
    ) -> Node[T, R]:
        """Wait for a leader, other than the given one, that has committed a record in its epoch."""
        return await self.simulation.wait_for_leader(other_than=other_than, within_s=within_s)

    async def wait_until(self, condition: Callable[[], bool], *, within_s: float = PATIENCE_S) -> None:
        """Wait for the condition to hold.  It is looked at every 10 ms."""
        await self.simulation.wait_until(condition, within_s=within_s)

    async def wait_until_alike(self, *, within_s: float = PATIENCE_S) -> None:
        """Wait until all running nodes have applied the same log."""
        with trio.fail_after(within_s):
            await self.simulation.wait_until_alike(within_s=within_s)
            for node in self.nodes.values():
                await node.wait_until_applied((node.high_watermark or 0) - 1)

    # Faults

    async def start(self, node: int | Node[T, R]) -> None:
        """Start a node that does not run, on its disk as it is."""
        await self.simulation.machines[_id(node)].start()

    async def stop(self, node: int | Node[T, R]) -> None:
        """Stop a node as SIGTERM does: it hands over and closes its log."""
        await self.simulation.machines[_id(node)].stop()

    def kill(self, node: int | Node[T, R]) -> None:
        """End a node's process as kill -9 does.  Nothing that it has written is lost."""
        self.simulation.machines[_id(node)].kill()

    def crash(self, node: int | Node[T, R], lose: Loss = "some") -> None:
        """Cut a node's power: of what it has not synced, it loses `some` or `all`."""
        self.simulation.machines[_id(node)].crash(lose)

    async def restart(self, node: int | Node[T, R]) -> None:
        """Kill a node and start it again."""
        self.kill(node)
        await self.start(node)

    def pause(self, node: int | Node[T, R]) -> None:
        """Freeze a node's process while time passes, as SIGSTOP does."""
        self.simulation.machines[_id(node)].pause()

    def resume(self, node: int | Node[T, R]) -> None:
        """Let a paused process continue."""
        self.simulation.machines[_id(node)].resume()

    def partition(self, *groups: Iterable[int | Node[T, R]]) -> None:
        """Let nodes reach only those of their own group."""
        self.simulation.partition(*([_id(node) for node in group] for group in groups))

    def isolate(self, node: int | Node[T, R]) -> None:
        """Let a node reach none of the others."""
        self.partition([node], [id for id in self.simulation.node_ids if id != _id(node)])

    def heal(self) -> None:
        """End every fault of the network."""
        self.simulation.heal()


@overload
def open_cluster(
    make: Callable[[], StateMachine[bytes, R]],
    *,
    voters: int = 3,
    observers: int = 0,
    settings: Mapping[str, str] | None = None,
) -> AbstractAsyncContextManager[VirtualCluster[bytes, R]]: ...
@overload
def open_cluster(
    make: Callable[[], StateMachine[T, R]],
    *,
    serde: Serde[T],
    voters: int = 3,
    observers: int = 0,
    settings: Mapping[str, str] | None = None,
) -> AbstractAsyncContextManager[VirtualCluster[T, R]]: ...
def open_cluster(
    make: Callable[[], StateMachine[Any, Any]],
    *,
    serde: Serde[Any] | None = None,
    voters: int = 3,
    observers: int = 0,
    settings: Mapping[str, str] | None = None,
) -> AbstractAsyncContextManager[VirtualCluster[Any, Any]]:
    """Open a cluster of running nodes in a function that `run` has called; it ends with the block.

    `make` is called for each process of a node: a class or another factory.  Voters have the ids from 1 on, and
    observers follow.  `settings` are configuration keys of all nodes.

    The replicas are compared: their results, their states, and what their snapshots restore.  A state machine that uses
    a clock or randomness is an error, too.  At the first error, or if the quorum breaks an invariant, the block ends
    with InvariantViolated, which tells the facts that contradict each other.
    """
    given: object = make
    if not callable(given):
        raise TypeError(f"make: one {type(given).__name__} for all nodes, expected its class or another factory")
    return _opened(make, serde, voters, observers, dict(settings or {}))


@asynccontextmanager
async def _opened(
    make: Callable[[], StateMachine[Any, Any]],
    serde: Serde[Any] | None,
    voters: int,
    observers: int,
    settings: Mapping[str, str],
) -> AsyncIterator[VirtualCluster[Any, Any]]:
    setup = Setup(
        seed=cast(int, run_queue().seed),
        voters=voters,
        observers=observers,
        settings=settings,
        state_machine=lambda _: make(),
        serde=serde,
        checks_machine=True,
    )
    failure: BaseException | None = None
    async with Cluster(setup).running() as cluster:
        try:
            yield VirtualCluster(cluster)
        except trio.Cancelled:
            raise
        except BaseException as error:
            # Raised after the cluster has ended: without a group around it, and not if a violation caused it.
            failure = error
        else:
            cluster.compare_machines()
    if failure is not None:
        raise failure


def _id(node: int | Node[Any, Any]) -> int:
    return node if isinstance(node, int) else node.config.node_id
