"""A state machine that numbers its commands, and clients that execute them with request ids while nodes fail."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from typing import Final
from uuid import UUID

import attrs
import trio

from kraft_trio import (
    CommandFailed,
    Committed,
    Node,
    NotAppendedError,
    OutcomeUnknownError,
    Record,
    ResultLostError,
)
from kraft_trio.simulation import Cluster

PATIENCE_S: Final = (0.02, 0.3, 3.0)
"""How long a client waits for one try; the first is often too short."""


async def restart_from_snapshots(cluster: Cluster) -> None:
    """Restart all nodes together, each from a snapshot of everything that is in the leader's log."""
    leader = await cluster.wait_for_leader()
    for node in cluster.nodes.values():
        await node.wait_until_applied(leader.log.end_offset - 1)
        await node.take_snapshot()
    for machine in cluster.machines.values():
        await machine.stop()
    for machine in cluster.machines.values():
        await machine.start()
    await cluster.wait_for_leader()


class Refusal(CommandFailed):
    """The ledger refuses a command.  Its arguments: the command, and the entries at that time."""


class Ledger:
    """Appends each command, and gives it its number from 1 on.  Commands that end with ? are refused."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    def apply(self, record: Committed[bytes]) -> int:
        if record.value.endswith(b"?"):
            raise Refusal(record.value, len(self.entries))
        self.entries.append(record.value)
        return len(self.entries)

    def save(self) -> Sequence[bytes]:
        return list(self.entries)

    async def load(self, records: AsyncIterator[Record]) -> None:
        self.entries = [record.value or b"" async for record in records]


class Ledgers:
    """The ledger of each node's present process."""

    def __init__(self) -> None:
        self.of: dict[int, Ledger] = {}

    def __call__(self, node_id: int) -> Ledger:
        self.of[node_id] = ledger = Ledger()
        return ledger


@attrs.define
class Request:
    """One command and all that its client was told."""

    value: bytes
    id: UUID
    most_before: int
    """The highest number that was given to anybody before this request was made."""
    outcome: int | tuple[object, ...] | None = None
    tries: int = 0


class Clients:
    """They retry each request until they know its outcome, often on another node, and sometimes once more."""

    def __init__(self, cluster: Cluster, count: int) -> None:
        self.cluster = cluster
        self.requests: list[Request] = []
        self._most = 0
        self._count = count
        self._is_stopping = False

    async def run(self) -> None:
        """Run until stopped; then every request has its outcome."""
        async with trio.open_nursery() as nursery:
            for number in range(self._count):
                nursery.start_soon(self._run_one, number)

    def stop(self) -> None:
        self._is_stopping = True

    async def _run_one(self, number: int) -> None:
        source = self.cluster.random(f"ledger-client-{number}")
        count = 0
        while not self._is_stopping:
            await trio.sleep(source.expovariate(5.0))
            node = self._a_node(source)
            if node is None:
                continue
            count += 1
            value = b"%d.%d%s" % (number, count, b"?" if source.random() < 0.2 else b"")
            request = Request(value, node.new_request_id(), self._most)
            self.requests.append(request)
            while request.outcome is None:
                await self._try(request, source)
            if source.random() < 0.3:
                await trio.sleep(source.expovariate(1.0))
                await self._try(request, source)

    def _a_node(self, source: random.Random) -> Node[bytes, int] | None:
        nodes = list(self.cluster.nodes.values())
        return source.choice(nodes) if nodes else None

    async def _try(self, request: Request, source: random.Random) -> None:
        node = self._a_node(source)
        outcome: int | tuple[object, ...] | None = None
        if node is not None:
            request.tries += 1
            with self.cluster.machines[node.config.node_id].in_process(), trio.move_on_after(source.choice(PATIENCE_S)):
                try:
                    outcome = await node.execute(request.value, request.id)
                except Refusal as error:
                    outcome = error.args
                except (NotAppendedError, OutcomeUnknownError, ResultLostError):
                    pass
        if outcome is None:
            await trio.sleep(source.uniform(0.1, 0.5))
            return
        if request.outcome is None and isinstance(outcome, int):
            if outcome <= request.most_before:
                self._violate(request, f"it was given {outcome}", f"{request.most_before} was given before it was made")
            self._most = max(self._most, outcome)
        if request.outcome not in (None, outcome):
            self._violate(request, f"it was given {outcome}", f"before that it was given {request.outcome}")
        request.outcome = outcome

    def check(self, ledgers: Ledgers) -> None:
        """Every node must have applied each command once, at the number that its clients were told."""
        for node_id, ledger in ledgers.of.items():
            entries = ledger.entries
            for request in self.requests:
                numbers = [number for number, entry in enumerate(entries, 1) if entry == request.value]
                given = [request.outcome] if isinstance(request.outcome, int) else []
                if numbers != given:
                    self._violate(request, f"it was given {request.outcome}", f"node {node_id} has it at {numbers}")

    def _violate(self, request: Request, fact: str, other: str) -> None:
        title = "a command is applied once, and its caller gets the result"
        self.cluster.violate(title, (f"{request.value!r} as {request.id}: {fact}", other))
