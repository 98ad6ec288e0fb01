"""Running a scenario script: each step is taken in turn, and its output is noted below it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.commands.simulated_machine import machine_named, serde_named
from kraft_trio.simulation.deterministic import run_deterministically
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.narration import Narrator
from kraft_trio.simulation.script.script import Script, StepLine
from kraft_trio.simulation.script.step import NotAsExpected, take
from kraft_trio.simulation.script.steps.election import campaign, elect
from kraft_trio.simulation.script.steps.runs import at
from kraft_trio.simulation.setup import Setup
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.simulation.violation import InvariantViolated
from kraft_trio.tracing.events import Trace

BEGUN_WITHIN_S: Final = 5.0


@attrs.frozen
class ScriptOutcome:
    """The result of a script."""

    script: Script
    """With the outputs of this run, up to the last step that was reached."""
    failure: str | None
    """Where and why the script ended early: an unmet expectation or a violated invariant; None if it did not."""
    digest: str
    """The digest of everything that happened: see Trace.digest."""
    virtual_s: float


MOST_REMEMBERED: Final = 50
"""How many values a snapshot of the state machine keeps one by one."""

SNAPSHOTS_KEY: Final = "metadata.log.max.record.bytes.between.snapshots"


def setup_of(header: Header) -> Setup:
    """The cluster of a script.  Its nodes have state machines with snapshots if the header configures when to take
    them.

    Raises ConfigError if the header's state machine or serde cannot be used.
    """
    settings = dict(header.settings)
    setup = Setup(
        seed=header.seed,
        voters=header.voters,
        observers=header.observers,
        witnesses=header.witnesses,
        started=tuple(node_id for node_id in header.nodes if node_id not in header.waiting),
        kraft_version=header.kraft_version,
        settings=settings,
        state_machine=(lambda _: RememberedValues(MOST_REMEMBERED)) if SNAPSHOTS_KEY in settings else None,
    )
    if header.state_machine is None:
        return setup
    make = machine_named(header.state_machine)
    serde = serde_named(header.serde, make())
    return attrs.evolve(setup, state_machine=lambda _: make(), serde=serde, checks_machine=True)


def run_script(
    script: Script,
    *,
    on_step: Callable[[StepLine], object] | None = None,
    on_trace: Callable[[Trace], object] | None = None,
) -> ScriptOutcome:
    """Run a script until it ends, an expectation is not met, or an invariant is violated.

    `on_step` is called with each step and its output as soon as the step has been taken, `on_trace` with the trace
    before the first event of a node.  The same script has the same outcome.
    """
    return _ScriptRun(script, on_step, on_trace).outcome()


@attrs.define
class _ScriptRun:
    script: Script
    on_step: Callable[[StepLine], object] | None
    on_trace: Callable[[Trace], object] | None
    outputs: list[list[str]] = attrs.field(factory=list)
    failure: str | None = None
    digest: str = ""
    virtual_s: float = 0.0

    def outcome(self) -> ScriptOutcome:
        run_deterministically(self._run, seed=self.script.header.seed)
        return ScriptOutcome(self.script.with_outputs(self.outputs), self.failure, self.digest, self.virtual_s)

    async def _run(self) -> None:
        cluster = Cluster(setup_of(self.script.header))
        cluster.history.is_complete = cluster.agreement is None
        if self.on_trace is not None:
            self.on_trace(cluster.trace)
        narrator = Narrator(cluster)
        line: StepLine | None = None
        try:
            async with cluster.running():
                await self._let_processes_begin(cluster)
                narrator.told()
                for line in self.script.step_lines:
                    if not await self._take(line, cluster, narrator):
                        break
                else:
                    _check_history(cluster)
        except InvariantViolated as violated:
            self.failure = self._located(line, str(violated))
            self._note(line, narrator)
        self.digest = cluster.trace.digest()
        self.virtual_s = cluster.now_s

    async def _take(self, line: StepLine, cluster: Cluster, narrator: Narrator) -> bool:
        """Take one step.  Returns whether it met its expectations."""
        narrator.pushed = line.step.values["node"] if line.step.kind in (elect, campaign) else None
        try:
            await take(line.step, cluster)
            await self._let_processes_begin(cluster)
        except NotAsExpected as error:
            self.failure = self._located(line, str(error))
        self._note(line, narrator)
        return self.failure is None

    async def _let_processes_begin(self, cluster: Cluster) -> None:
        """Wait a little until every new process has taken its first role, so that the output shows it."""

        def have_begun() -> bool:
            nodes = (machine.replica for machine in cluster.machines.values() if machine.node and not machine.is_paused)
            return all(replica is not None and replica.view is not None for replica in nodes)

        if not any(step.kind is at for step in self.script.steps):
            with suppress(trio.TooSlowError):
                await cluster.wait_until(have_begun, within_s=BEGUN_WITHIN_S)

    def _note(self, line: StepLine | None, narrator: Narrator) -> None:
        if line is None or len(self.outputs) == len(self.script.step_lines):
            return
        self.outputs.append(narrator.told())
        if self.on_step is not None:
            self.on_step(attrs.evolve(line, output=tuple(self.outputs[-1])))

    def _located(self, line: StepLine | None, problem: str) -> str:
        if line is None:
            return f"{self.script.name}: {problem}"
        return f"{self.script.name}, line {line.number}: {problem}\n    {line.step.text}"


def _check_history(cluster: Cluster) -> None:
    """Check what holds only at the end, if all nodes have come to the same log."""
    ends: set[Any] = {(node.log.end, node.high_watermark) for node in cluster.nodes.values()}
    if len(cluster.nodes) == len(cluster.machines) and len(ends) == 1 and all(e.offset == h for e, h in ends):
        cluster.checker.finished()
