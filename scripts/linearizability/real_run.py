"""Runs clients of a quorum of real nodes under faults, first without and then with read leases."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Final

import attrs
import trio

from harness.quorum import Quorum
from kraft_trio.simulation.facts.history_file import write_history
from scripts.linearizability.clients import Client, Recorder
from scripts.linearizability.faults import FAULTS, Faults
from scripts.linearizability.members import SNAPSHOTS, Members

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


def run_real_nodes(home: Path, seconds: float, seed: int | None) -> RealRun:
    """Run for about that time, with each fault at least once while it lasts.  Raises NoProgress."""
    chosen = random.SystemRandom().randrange(2**32) if seed is None else seed
    return trio.run(_run, Quorum(home, VOTERS, OBSERVERS, SNAPSHOTS), home / "history.jsonl", seconds, chosen)


async def _run(quorum: Quorum, history: Path, seconds: float, seed: int) -> RealRun:
    source = random.Random(seed)
    recorder = Recorder()
    async with trio.open_nursery() as nursery:
        members = Members(quorum, nursery)
        faults = Faults(members, recorder, source)
        try:
            members.start_all()
            async with trio.open_nursery() as clients:
                for number in range(CLIENTS):
                    own = random.Random(f"{seed}/{number}")
                    clients.start_soon(Client(f"c{number}", members, recorder, own).run)
                await _cause(faults, source, seconds)
                clients.cancel_scope.cancel()
            await Client("last", members, recorder, source).read_all()
        finally:
            with trio.CancelScope(shield=True):
                await members.kill_all()
            write_history(history, sorted(recorder.entries, key=lambda entry: entry.invoked))
        nursery.cancel_scope.cancel()
    kinds = Counter(entry.kind for entry in recorder.entries if entry.outcome == "ok")
    done = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    summary = (
        f"seed {seed}: acknowledged {done}; failed {recorder.count('fail')}, unknown {recorder.count('unknown')}; "
        f"faults {', '.join(faults.names)}"
    )
    return RealRun(history, seed, kinds, tuple(faults.names), summary)


async def _cause(faults: Faults, source: random.Random, seconds: float) -> None:
    """Half of the time without leases and half with them, each fault in one of the halves at least."""
    began = trio.current_time()
    order = source.sample(FAULTS, len(FAULTS))
    await faults.progress()
    half = len(order) // 2
    for halves, part in ((1, order[:half]), (2, [*order[half:], Faults.pause_leader])):
        if halves == 2:
            await faults.cause(Faults.begin_leases)
        for fault in part:
            await faults.cause(fault)
        while trio.current_time() < began + halves * seconds / 2:
            await faults.cause(source.choice(FAULTS))
