"""Clients that write and read while faults happen, each one operation after the other, all noted in one history."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from kraft_trio.simulation.clients.log_access import EmbeddedAccess, LogAccess, NetworkAccess
from kraft_trio.simulation.clients.operations import OPERATIONS, Append, OperationKind, ReadKnown, Request
from kraft_trio.simulation.facts.history import Outcome
from kraft_trio.simulation.world import World

PATIENCE_S: Final = (0.2, 2.0, 20.0)
"""How long clients wait for an answer; one of these for each operation."""

RETRY_BACKOFF_MS: Final = 250
"""Longer than the library's own, for the sake of simulated time that passes without a leader."""


@attrs.define(eq=False)
class _Client:
    """One client.  Embedded: each operation in the process of a node that happens to run, else over the network."""

    name: str
    world: World
    random: random.Random
    network: NetworkAccess | None
    """None for an embedded client."""
    requests: int = 0

    def access(self) -> LogAccess | None:
        """The way for the next operation; None while no node runs that could be embedded in."""
        if self.network is not None:
            return self.network
        nodes = list(self.world.nodes.values())
        return EmbeddedAccess(self.random.choice(nodes)) if nodes else None

    def request(self, access: LogAccess, within_s: float) -> Request:
        self.requests += 1
        world = self.world
        return Request(
            self.name,
            self.requests - 1,
            self.random,
            world.history,
            access,
            within_s,
            log_is_trimmed=world.setup.state_machine is not None,
        )


class Workload:
    """The clients of one run.  `start` it, or await `run`; `stop` it before the history is looked at as a whole."""

    def __init__(
        self,
        world: World,
        *,
        clients: int = 3,
        embedded: int | None = None,
        operations_per_s: float = 1.0,
        weights: Mapping[str, float] | None = None,
        retry_backoffs_ms: Sequence[int] = (RETRY_BACKOFF_MS,),
    ) -> None:
        """`clients` in all, of whom `embedded` (a third, by default) are in the nodes' processes; each begins
        `operations_per_s` on average, as long as it gets answers.  `weights` says how often each kind of operation is
        drawn, by name, where not as registered; `retry_backoffs_ms` how long a client waits before it tries again, one
        of them for each.

        Raises ValueError naming what cannot be; clients that are embedded write bytes, so the cluster has no serde.
        """
        self._embedded = clients // 3 if embedded is None else embedded
        if not 0 <= self._embedded <= clients:
            raise ValueError(f"embedded: {embedded} of {clients} clients, expected 0 to all of them")
        if operations_per_s <= 0:
            raise ValueError(f"operations_per_s: {operations_per_s}, expected more than 0")
        if self._embedded and world.setup.serde is not None:
            raise ValueError(
                "embedded: the nodes have a serde of their own, expected none (embedded clients write bytes)"
            )
        self._kinds, self._weights = _chosen_kinds(weights)
        self._world = world
        self._clients = clients
        self._retry_backoffs_ms = retry_backoffs_ms
        self._rate = operations_per_s
        self._stopping = trio.Event()
        self._ended: trio.Event | None = None
        self._scope = trio.CancelScope()

    def start(self) -> None:
        """Run beside everything else, until stopped or the cluster ends."""
        self._ended = trio.Event()
        self._world.nursery.start_soon(self.run)

    async def run(self) -> None:
        """Run until stopped.  An error that no client should meet is a violation and ends the world."""
        ended = self._ended = trio.Event() if self._ended is None else self._ended
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    for number in range(self._clients):
                        name = f"embedded-{number}" if number < self._embedded else f"network-{number - self._embedded}"
                        nursery.start_soon(self._run_client, name, number < self._embedded)
        finally:
            ended.set()

    async def stop(self, within_s: float = 25.0) -> None:
        """Begin no more operations; those under way may end, within that time: then they are given up and stay pending.

        Returns when the clients have ended; a workload is not started again.
        """
        self._stopping.set()
        if self._ended is None:
            return
        with trio.move_on_after(within_s):
            await self._ended.wait()
        self._scope.cancel()
        await self._ended.wait()

    async def demand_progress(self, within_s: float = 30.0) -> None:
        """Once no fault is left: from a new client and in every running node an append, and a read of all, succeed.

        A violation where one of them does not, each within that time.  Where logs are trimmed nobody can read all.
        """
        async with self._world.client("after-faults") as client, trio.open_nursery() as nursery:
            nursery.start_soon(self._demand_of, NetworkAccess(self._world, "after-faults", client), within_s)
            for node in self._world.nodes.values():
                nursery.start_soon(self._demand_of, EmbeddedAccess(node), within_s)

    async def _demand_of(self, access: LogAccess, within_s: float) -> None:
        name = "after-faults" if access.via is None else f"after-faults-{access.via}"
        client = _Client(name, self._world, self._world.random(f"workload/{name}"), None)
        kinds = (Append,) if self._world.setup.state_machine is not None else (Append, ReadKnown)
        for kind in kinds:
            operation = await kind(client.request(access, within_s)).perform()
            if operation.outcome is not Outcome.OK:
                nodes = () if access.via is None else (access.via,)
                title = "clients make progress once the faults are over"
                facts = (str(operation), f"no fault has been there for {within_s:g} s")
                self._world.violate(title, facts, nodes)
                return

    async def _run_client(self, name: str, is_embedded: bool) -> None:
        source = self._world.random(f"workload/{name}")
        if is_embedded:
            await self._operate(_Client(name, self._world, source, None))
            return
        backoff_ms = source.choice(self._retry_backoffs_ms)
        async with self._world.client(name, retry_backoff_ms=backoff_ms) as client:
            network = NetworkAccess(self._world, name, client, retry_backoff_ms=backoff_ms)
            await self._operate(_Client(name, self._world, source, network))

    async def _operate(self, client: _Client) -> None:
        while True:
            with trio.move_on_after(client.random.expovariate(self._rate)):
                await self._stopping.wait()
                return
            access = client.access()
            if access is None:
                continue
            (kind,) = client.random.choices(self._kinds, self._weights)
            request = client.request(access, client.random.choice(PATIENCE_S))
            try:
                await kind(request).perform()
            except Exception as error:
                nodes = () if access.via is None else (access.via,)
                what = f"{kind.name} of {client.name} met {type(error).__name__}, which no client should: {error}"
                self._world.bug(what, nodes, error)
                return


def _chosen_kinds(weights: Mapping[str, float] | None) -> tuple[list[type[OperationKind]], list[float]]:
    """Kinds and weights in the order of their names: the same whatever was registered or asked for first."""
    chosen = {name: kind.weight for name, kind in OPERATIONS.items()} if weights is None else dict(weights)
    for name, weight in chosen.items():
        if name not in OPERATIONS:
            raise ValueError(f"weights: no operation {name!r}, expected some of {', '.join(sorted(OPERATIONS))}")
        if weight < 0:
            raise ValueError(f"weights: {name!r} weighs {weight}, expected 0 or more")
    if not any(chosen.values()):
        raise ValueError(f"weights: {chosen}, expected one above 0")
    names = sorted(chosen)
    return [OPERATIONS[name] for name in names], [chosen[name] for name in names]
