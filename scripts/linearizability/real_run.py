"""Runs clients of a quorum of real nodes under faults, first without and then with read leases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from harness.quorum import Quorum
from kraft_trio.simulation.facts.history_file import write_history
from scripts.linearizability.clients import Client, Recorder
from scripts.linearizability.faults import FAULTS, Faults
from scripts.linearizability.members import SNAPSHOTS, Member, Members
from scripts.linearizability.servers import ServerMember, StoreClient

CLIENTS: Final = 5
VOTERS: Final = 3
OBSERVERS: Final = 1
"""They may become voters."""


@attrs.frozen
class RealRun:
    """What came of it."""

    history: Path
    seed: int
    kinds: Counter[str]
    """How many operations of each kind were acknowledged."""
    faults: tuple[str, ...]
    summary: str


def run_real_nodes(home: Path, seconds: float, seed: int | None, *, gateway: bool = False) -> RealRun:
    """Run for about that time, with each fault at least once while it lasts.

    The nodes are embedded and replicate registers; with `gateway`, they are servers with the key-value store, whose
    clients use HTTP.  Raises NoProgress.
    """
    chosen = random.SystemRandom().randrange(2**32) if seed is None else seed
    run = _Run(Quorum(home, VOTERS, OBSERVERS, SNAPSHOTS), home / "history.jsonl", seconds, chosen, gateway)
    return trio.run(run.run)


@attrs.frozen
class _Run:
    quorum: Quorum
    history: Path
    seconds: float
    seed: int
    gateway: bool

    async def run(self) -> RealRun:
        source = random.Random(self.seed)
        recorder = Recorder()
        async with trio.open_nursery() as nursery:
            members, client = self._members(nursery)
            faults = Faults(members, recorder, source)
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
                write_history(self.history, sorted(recorder.entries, key=lambda entry: entry.invoked))
            nursery.cancel_scope.cancel()
        return self._result(recorder, faults)

    def _members(self, nursery: trio.Nursery) -> tuple[Members[Any], Callable[..., Any]]:
        if self.gateway:
            return Members(self.quorum, lambda node: ServerMember(node, self.quorum)), StoreClient
        return Members(self.quorum, lambda node: Member(node, nursery)), Client

    async def _cause(self, faults: Faults, source: random.Random) -> None:
        """Half of the time without leases and half with them, each fault in one of the halves at least."""
        began = trio.current_time()
        order = source.sample(FAULTS, len(FAULTS))
        await faults.progress()
        half = len(order) // 2
        for halves, part in ((1, order[:half]), (2, [*order[half:], Faults.pause_leader])):
            if halves == 2:
                await faults.cause(Faults.begin_leases)
                if not self.gateway:
                    await faults.lease_read()
            for fault in part:
                await faults.cause(fault)
            while trio.current_time() < began + halves * self.seconds / 2:
                await faults.cause(source.choice(FAULTS))

    def _result(self, recorder: Recorder, faults: Faults) -> RealRun:
        told = [entry for entry in recorder.entries if entry.outcome == "ok"]
        kinds = Counter(str(entry.command[0]) if self.gateway else entry.kind for entry in told)
        done = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
        summary = (
            f"seed {self.seed}: acknowledged {done}; failed {recorder.count('fail')}, "
            f"unknown {recorder.count('unknown')}; faults {', '.join(faults.names)}"
        )
        return RealRun(self.history, self.seed, kinds, tuple(faults.names), summary)
