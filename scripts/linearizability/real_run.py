"""Runs clients of a quorum of real nodes under faults, first without and then with read leases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from harness.node import NodeProcess
from harness.quorum import Quorum
from kraft_trio.errors import leaves
from kraft_trio.simulation.facts.history_file import write_history
from scripts.linearizability import partitions
from scripts.linearizability.clients import Client, Recorder
from scripts.linearizability.clocks import Clocks
from scripts.linearizability.fault_kinds import FAULTS, UNDER_LEASES
from scripts.linearizability.faults import VOTERS, Fault, Faults
from scripts.linearizability.members import SNAPSHOTS, Member, Members
from scripts.linearizability.proxy import PeerProxy
from scripts.linearizability.servers import ServerMember, StoreClient
from scripts.linearizability.surroundings import Surroundings

CLIENTS: Final = 5
OBSERVERS: Final = 1
"""They may become voters."""


@attrs.frozen
class RealRun:
    """What came of it."""

    history: Path
    seed: int
    kinds: Counter[str]
    """How many operations of each kind were acknowledged."""
    faults: Counter[str]
    """How often each fault has had an effect."""
    summary: str


def run_real_nodes(
    home: Path,
    seconds: float,
    seed: int | None,
    *,
    gateway: bool = False,
    faults: Collection[str] = tuple(FAULTS),
    excessive_drift: bool = False,
) -> RealRun:
    """Run for about that time, with each of these faults at least once while it lasts.

    The nodes are embedded and replicate registers; with `gateway`, they are servers with the key-value store, whose
    clients use HTTP.  With `excessive_drift`, there is one fault only: the clock of an isolated leader almost stops.
    Raises NoProgress, and NoEffect for a fault that never has an effect.
    """
    chosen = random.SystemRandom().randrange(2**32) if seed is None else seed
    quorum = Quorum(home, VOTERS, OBSERVERS, SNAPSHOTS)
    try:
        return trio.run(_Run(quorum, home, seconds, chosen, gateway, faults, excessive_drift).run)
    except BaseExceptionGroup as group:
        causes = list(leaves(group))
        if len(causes) > 1:
            raise
        raise causes[0] from None


@attrs.frozen
class _Run:
    quorum: Quorum
    home: Path
    seconds: float
    seed: int
    gateway: bool
    kinds: Collection[str]
    excessive_drift: bool

    async def run(self) -> RealRun:
        source = random.Random(self.seed)
        recorder = Recorder()
        clocks = Clocks.create(self.home, self.quorum.nodes, is_excessive=self.excessive_drift)
        proxy = PeerProxy({node.endpoint.port: node.id for node in self.quorum.nodes.values()})
        history = self.home / "history.jsonl"
        async with trio.open_nursery() as nursery:
            await nursery.start(proxy.serve)
            members, client = self._members(nursery, proxy)
            faults = Faults(members, recorder, proxy, clocks, source)
            try:
                members.start_all()
                async with trio.open_nursery() as clients:
                    for number in range(CLIENTS):
                        own = random.Random(f"{self.seed}/{number}")
                        clients.start_soon(client(f"c{number}", members, recorder, own).run)
                    await self._cause(faults, source)
                    clients.cancel_scope.cancel()
                await client("last", members, recorder, source).read_all()
                ended = [id for id, member in members.by_id.items() if not member.is_running]
                assert not ended, f"seed {self.seed}: nodes {ended} have ended by themselves"
            finally:
                with trio.CancelScope(shield=True):
                    await members.kill_all()
                write_history(history, sorted(recorder.entries, key=lambda entry: entry.invoked))
            nursery.cancel_scope.cancel()
        return self._result(history, recorder, faults)

    def _members(self, nursery: trio.Nursery, proxy: PeerProxy) -> tuple[Members[Any], Callable[..., Any]]:
        def surroundings(node: NodeProcess) -> Surroundings:
            return Surroundings(node.id, proxy.port, str(Clocks.path(self.home, node.id)))

        if self.gateway:
            return Members(self.quorum, lambda node: ServerMember(node, surroundings(node), self.quorum)), StoreClient
        return Members(self.quorum, lambda node: Member(node, surroundings(node), nursery)), Client

    async def _cause(self, faults: Faults, source: random.Random) -> None:
        """Half of the time without leases and half with them, each fault in one of the halves at least."""
        await faults.progress()
        if self.excessive_drift:
            await self._begin_leases(faults)
            await self._repeat(faults, source, [partitions.isolate_slow_leader], self.seconds)
            return
        kinds = [FAULTS[name] for name in self.kinds]
        without = [fault for fault in kinds if fault is not partitions.isolate_slow_leader]
        order = source.sample(without, len(without))
        half = len(order) // 2
        await self._repeat(faults, source, order[:half], self.seconds / 2, without)
        await self._begin_leases(faults)
        again = [fault for fault in UNDER_LEASES if fault in kinds]
        await self._repeat(faults, source, [*order[half:], *again], self.seconds / 2, kinds)

    async def _begin_leases(self, faults: Faults) -> None:
        await faults.cause_all([Faults.begin_leases])
        if not self.gateway:
            await faults.lease_read()

    async def _repeat(
        self, faults: Faults, source: random.Random, order: list[Fault], seconds: float, others: Sequence[Fault] = ()
    ) -> None:
        """Cause each of the faults, and then any of them or of the others until the time is over."""
        ends_at = trio.current_time() + seconds
        await faults.cause_all(order)
        pool = [*others] or order
        while pool and trio.current_time() < ends_at:
            await faults.cause(source.choice(pool))

    def _result(self, history: Path, recorder: Recorder, faults: Faults) -> RealRun:
        told = [entry for entry in recorder.entries if entry.outcome == "ok"]
        kinds = Counter(str(entry.command[0]) if self.gateway else entry.kind for entry in told)
        summary = (
            f"seed {self.seed}: acknowledged {_counts(kinds)}; failed {recorder.count('fail')}, "
            f"unknown {recorder.count('unknown')}\n"
            f"faults with an effect: {_counts(faults.effective)} (of {faults.caused.total()})\n"
            f"cut links: {_counts(faults.proxy.links.effects)}"
        )
        return RealRun(history, self.seed, kinds, faults.effective, summary)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count) or "none"
