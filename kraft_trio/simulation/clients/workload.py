"""Clients that write and read during faults, each one operation at a time, recorded in one history."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from kraft_trio.simulation.clients.commands import command_kinds, demanded_kind
from kraft_trio.simulation.clients.log_access import EmbeddedAccess, LogAccess, NetworkAccess
from kraft_trio.simulation.clients.operations import (
    OPERATIONS,
    Append,
    OperationKind,
    ReadBehindBarrier,
    ReadKnown,
    Request,
)
from kraft_trio.simulation.facts.history import Outcome
from kraft_trio.simulation.world import World

WITHIN_S: Final = (0.2, 2.0, 20.0)
"""How long a client waits for an answer; each operation draws one of them."""

RETRY_BACKOFF_MS: Final = 250
"""Longer than the library's default, so that times without a leader need less real time."""


@attrs.define(eq=False)
class _Client:
    """One client.  An embedded client uses a random running node for each operation, others the network."""

    name: str
    world: World
    random: random.Random
    network: NetworkAccess | None
    """None for an embedded client."""
    requests: int = 0

    def access(self, *, needs_node: bool) -> LogAccess | None:
        """Access to the log for the next operation; None if the client must be embedded and no node runs."""
        if self.network is not None and not needs_node:
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
    """The clients of one run.  Call `start` or await `run`, and `stop` it before the whole history is checked."""

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
        """Of the `clients`, `embedded` ones (a third by default) run inside nodes.

        Each client begins `operations_per_s` on average while it gets answers.  `weights` replaces the registered
        shares of the kinds, by name.  Each client draws one of `retry_backoffs_ms`.

        In a cluster whose state machines are checked, all clients execute commands instead, inside nodes.

        Raises ValueError, which names the wrong argument.  Embedded clients write bytes, so the cluster must have no
        serde.
        """
        self._executes = world.agreement is not None
        if embedded is None:
            embedded = 0 if self._executes else clients // 3
        self._embedded = embedded
        if not 0 <= self._embedded <= clients:
            raise ValueError(f"embedded: {embedded} of {clients} clients, expected 0 to all of them")
        if operations_per_s <= 0:
            raise ValueError(f"operations_per_s: {operations_per_s}, expected more than 0")
        if self._embedded and world.setup.serde is not None:
            raise ValueError(
                "embedded: the nodes have a serde of their own, expected none (embedded clients write bytes)"
            )
        self._kinds, self._weights = command_kinds(world) if self._executes else _chosen_kinds(weights)
        self._world = world
        self._clients = clients
        self._retry_backoffs_ms = retry_backoffs_ms
        self._rate = operations_per_s
        self._stopping = trio.Event()
        self._ended: trio.Event | None = None
        self._scope = trio.CancelScope()

    def start(self) -> None:
        """Run in the background until stopped or the run ends."""
        self._ended = trio.Event()
        self._world.nursery.start_soon(self.run)

    async def run(self) -> None:
        """Run until stopped.  An error that no client should see is a violation."""
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
        """Begin no more operations, and give those under way `within_s` to end; after that they stay pending.

        Returns when all clients have ended.  A stopped workload cannot be started again.
        """
        self._stopping.set()
        if self._ended is None:
            return
        with trio.move_on_after(within_s):
            await self._ended.wait()
        self._scope.cancel()
        await self._ended.wait()

    async def demand_progress(self, within_s: float = 30.0) -> None:
        """Without faults, a new client and every running node must be able to append, and to read everything.

        Each operation that does not succeed in time is a violation.  Reads of the whole log are left out if logs are
        trimmed.
        """
        async with self._world.client("after-faults") as client, trio.open_nursery() as nursery:
            if not self._executes:
                nursery.start_soon(self._demand_of, NetworkAccess(self._world, "after-faults", client), within_s)
            for node in self._world.nodes.values():
                nursery.start_soon(self._demand_of, EmbeddedAccess(node), within_s)

    async def _demand_of(self, access: LogAccess, within_s: float) -> None:
        name = "after-faults" if access.via is None else f"after-faults-{access.via}"
        client = _Client(name, self._world, self._world.random(f"workload/{name}"), None)
        kinds: list[type[OperationKind]] = [demanded_kind(self._world) if self._executes else Append]
        if self._world.setup.state_machine is None:
            kinds.append(ReadKnown)
        if access.via is not None:
            kinds.append(ReadBehindBarrier)
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
            (kind,) = client.random.choices(self._kinds, self._weights)
            access = client.access(needs_node=kind.needs_node)
            if access is None:
                continue
            request = client.request(access, client.random.choice(WITHIN_S))
            try:
                await kind(request).perform()
            except Exception as error:
                nodes = () if access.via is None else (access.via,)
                what = f"{kind.name} of {client.name} met {type(error).__name__}, which no client should: {error}"
                self._world.bug(what, nodes, error)
                return


def _chosen_kinds(weights: Mapping[str, float] | None) -> tuple[list[type[OperationKind]], list[float]]:
    """Kinds and weights, sorted by name, so that the order of registration does not matter."""
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
