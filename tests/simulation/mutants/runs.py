"""The runs that give mutants away: scripts for what needs one certain order of events, storms for what chance finds."""

from __future__ import annotations

import textwrap
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import attrs
import trio

from kraft_trio.messages import TimedOut, VoteRoundEnded
from kraft_trio.protocol.roles import Prospective
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.clients.workload import Workload
from kraft_trio.simulation.faults.nemesis import FAULT_KINDS
from kraft_trio.simulation.faults.plan import Timeline
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.run import setup_of
from kraft_trio.simulation.script.script import parse_script
from kraft_trio.simulation.script.step import NotAsExpected
from kraft_trio.simulation.script.steps import runs

FAST = {
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.fetch.timeout.ms": "400",
    "controller.quorum.request.timeout.ms": "500",
}
"""Timeouts so short that a run of a few seconds has many elections."""


SCENARIOS = Path(__file__).parents[2] / "scenarios"

LONGEST_US = 1_000_000
"""How long a fault of a storm lasts at most."""


@attrs.define
class _Hectic(Timeline):
    """No fault lasts long: there are the more of them in a short run."""

    def span_us(self, shortest_us: int, longest_us: int) -> int:
        return super().span_us(min(shortest_us, LONGEST_US // 20), min(longest_us, LONGEST_US))


@attrs.frozen(eq=False)
class Run:
    """A cluster and what happens to it; the caller chooses the seed."""

    name: str
    """For the table."""
    setup: Setup
    main: Callable[[Cluster], Awaitable[None]]


def script(name: str, text: str, *, clients: int = 0, expects: bool = False) -> Run:
    """A scenario; with clients, they write and read all the time.

    If it `expects` to go as it says, then what is not as expected is a violation, of invariant 0.
    """
    parsed = parse_script(textwrap.dedent(text), name)

    async def main(cluster: Cluster) -> None:
        start_clients(cluster, clients, 10.0)
        for step in parsed.steps:
            try:
                await step.take(cluster)
            except NotAsExpected as unmet:
                if not expects:
                    raise
                facts = (f"the step is `{step.text}`", str(unmet))
                cluster.violate("a scenario goes as it says", facts)
                await trio.sleep_forever()

    return Run(name, setup_of(parsed.header), main)


def scenario(name: str, *, expects: bool = True) -> Run:
    """The script of that name among the regression scenarios; if it does not expect, invariants alone are to find."""
    text = (SCENARIOS / f"{name}.txt").read_text(encoding="utf-8")
    return script(f"{name}.txt", text, expects=expects)


def storm(
    name: str,
    *kinds: str,
    seconds: float = 10.0,
    gap_s: float = 0.5,
    clients: int = 3,
    operations_per_s: float = 10.0,
    recovers: bool = False,
    voters: int = 3,
    observers: int = 0,
    kraft_version: int = 1,
    settings: Sequence[tuple[str, str]] = (),
) -> Run:
    """Faults of these kinds at random times, `gap_s` apart on average, while clients write and read."""
    header = Header(
        voters=tuple(range(1, voters + 1)),
        observers=tuple(range(voters + 1, voters + observers + 1)),
        kraft_version=kraft_version,
        settings=tuple({**FAST, **dict(settings)}.items()),
    )

    async def main(cluster: Cluster) -> None:
        source = cluster.random("storm")
        timeline = _Hectic(source, header, round(seconds * 1e6))
        now_s = 0.0
        while kinds and (now_s := now_s + source.expovariate(1 / gap_s)) < seconds:
            FAULT_KINDS[source.choice(kinds)].make(timeline, round(now_s * 1000) * 1000)
        start_clients(cluster, clients, operations_per_s)
        for fault in sorted(timeline.steps, key=lambda fault: fault.at_us):
            await runs.at(fault.at_us).take(cluster)
            await fault.step.take(cluster)
        await runs.at(round(seconds * 1e6)).take(cluster)
        if recovers:
            await runs.recover().take(cluster)

    return Run(name, setup_of(header), main)


def custom(name: str, main: Callable[[Cluster], Awaitable[None]], **setup: object) -> Run:
    """What no script can say."""
    return Run(name, Setup(**setup), main)  # type: ignore[arg-type]


async def campaign(cluster: Cluster, *node_ids: int) -> None:
    """Let these nodes become candidates in the same moment, as among peers that do not know pre-votes."""
    for node_id in node_ids:
        election = cluster.nodes[node_id].election
        await election.tell(TimedOut(election.view.value.stamp))
    for node_id in node_ids:
        election = cluster.nodes[node_id].election
        asking = await election.view.wait_for(lambda view: isinstance(view.role, Prospective))
        await election.tell(VoteRoundEnded(asking.stamp, won=False, skip_pre_vote=True))


def start_clients(cluster: Cluster, clients: int, operations_per_s: float) -> None:
    """Let so many clients write and read all the time; none at all if it is 0."""
    if clients:
        cluster.history.is_complete = True
        cluster.workload = Workload(cluster, clients=clients, operations_per_s=operations_per_s)
        cluster.workload.start()
