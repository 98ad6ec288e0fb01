"""One run of one plan, and how all seeds of a campaign are run."""

from __future__ import annotations

import gc
import shlex
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import attrs

from kraft_trio.simulation.campaign.outcome import STUCK, Failure, Outcome, RunCoverage
from kraft_trio.simulation.campaign.reached import Reached
from kraft_trio.simulation.campaign.watchdog import Stuck, real_time_limit
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.commands.simulated_machine import MACHINE_OPTION, SERDE_OPTION
from kraft_trio.simulation.deterministic import run_deterministically
from kraft_trio.simulation.facts.history import ADMINISTRATION
from kraft_trio.simulation.facts.history import Outcome as OperationOutcome
from kraft_trio.simulation.facts.history_file import entries_of, write_history
from kraft_trio.simulation.faults.nemesis import PlanOptions, make_plan
from kraft_trio.simulation.faults.plan import Plan
from kraft_trio.simulation.script.parts import duration_text
from kraft_trio.simulation.script.run import setup_of
from kraft_trio.simulation.script.step import take
from kraft_trio.simulation.violation import InvariantViolated
from kraft_trio.system.support import no_windows
from kraft_trio.tracing.events import Trace, TraceEvent
from kraft_trio.tracing.files import TraceHeader, TraceWriter

if sys.platform == "win32":
    raise no_windows("the simulator")

CPU_LIMIT_S: Final = 120.0
"""CPU seconds for a run of one virtual minute before it counts as stuck; longer runs get proportionally more."""

_TRACEBACK_LINES: Final = 60

_CHANGES: Final = {
    OperationOutcome.OK: "voter changes made",
    OperationOutcome.FAIL: "voter changes refused",
    OperationOutcome.UNKNOWN: "voter changes of unknown fate",
    OperationOutcome.PENDING: "voter changes never answered",
}
"""Names for the outcomes of administrators' requests."""

_NOTED: Final = {"replace": "snapshots fetched", "load": "snapshots loaded", "trim": "logs trimmed"}
"""The kinds of events that are counted, with their names."""


@attrs.frozen
class TraceTo:
    """The file for the trace of a run.  An existing file is emptied."""

    path: str
    command: str
    """The command that replays the run, for the file's header."""
    ndjson: bool = False
    messages: bool = False
    """Whether every message on the network becomes an event."""

    def writer(self, seed: int, script: str) -> TraceWriter:
        """Create the file.  Raises OSError."""
        header = TraceHeader(seed, self.command, script)
        return TraceWriter(self.path, header, ndjson=self.ndjson, messages=self.messages)


def cpu_limit_s(duration_us: int) -> float:
    """The CPU seconds after which a run with that much faulty time counts as stuck."""
    return CPU_LIMIT_S * max(1.0, duration_us / 60e6)


def run_seed(
    seed: int, options: PlanOptions, trace_to: TraceTo | None = None, history_to: str | None = None
) -> Outcome:
    """Make the plan of that seed and run it.  `history_to` is a file for the history of the clients.

    Raises OSError if the trace or the history cannot be written.
    """
    plan = make_plan(seed, options)
    if trace_to is None:
        return run_plan(plan, history_to=history_to)
    with trace_to.writer(seed, plan.script().text) as writer:
        return run_plan(plan, writer.attach, history_to)


def run_plan(plan: Plan, on_trace: Callable[[Trace], object] | None = None, history_to: str | None = None) -> Outcome:
    """Run a plan in this process.  Failures of the code under test are not raised but returned in the outcome.

    `on_trace` is called with the trace before the first event of a node.
    """
    run = _Run(plan, on_trace)
    outcome = run.outcome()
    if history_to is not None and run.cluster is not None:
        write_history(history_to, entries_of(run.cluster.history.operations, run.cluster.facts.records))
    if outcome.failure is not None and outcome.failure.rule == STUCK:
        # The abandoned tasks must end now: during the next run they would interfere with its tasks.
        gc.collect()
    return outcome


@attrs.define
class _Run:
    plan: Plan
    on_trace: Callable[[Trace], object] | None
    cluster: Cluster | None = None
    virtual_s: float = 0.0
    noted: Counter[str] = attrs.field(factory=Counter)
    coverage: RunCoverage = attrs.field(factory=RunCoverage)
    reached: Reached | None = None

    def outcome(self) -> Outcome:
        began = time.perf_counter()
        failure: Failure | None = None
        try:
            with real_time_limit(cpu_limit_s(self.plan.duration_us)):
                run_deterministically(self._main, seed=self.plan.seed)
        except InvariantViolated as violated:
            failure = _violation(violated)
        except (Exception, Stuck) as error:
            failure = self._bug(error)
        except BaseExceptionGroup as group:
            # Trio groups whatever a task raises, including the watchdog's alarm.
            if group.split((Exception, Stuck))[1] is not None:
                raise
            failure = self._bug(group)
        real_s = time.perf_counter() - began
        digest = "" if self.cluster is None else self.cluster.trace.digest()
        return Outcome(
            self.plan.seed,
            failure,
            self.virtual_s,
            real_s,
            digest,
            self._counts(),
            Counter(fault.step.verb for fault in self.plan.faults),
            self.coverage.transitions,
            self.coverage.slowest_election_us,
            self.coverage.slowest_election_at_us,
            frozenset() if self.reached is None else self.reached.names(),
        )

    async def _main(self) -> None:
        cluster = self.cluster = Cluster(setup_of(self.plan.header))
        cluster.history.is_complete = cluster.agreement is None
        cluster.trace.listeners += [self._noted, self.coverage.heard]
        self.reached = Reached(cluster.facts)
        self.reached.listen(cluster)
        if self.on_trace is not None:
            self.on_trace(cluster.trace)
        async with cluster.running():
            for step in self.plan.steps():
                await take(step, cluster)

    def _noted(self, event: TraceEvent) -> None:
        self.virtual_s = event.time_us / 1e6
        if event.kind == "role" and event.role == "Leader":
            self.noted["elections"] += 1
        elif event.kind == "log" and event.cause == "snapshot taken":
            self.noted["snapshots taken"] += 1
        elif event.kind in _NOTED:
            self.noted[_NOTED[event.kind]] += 1

    def _bug(self, error: BaseException) -> Failure:
        lines = traceback.format_exception(error)[-_TRACEBACK_LINES:]
        events = [] if self.cluster is None else self.cluster.trace.last_events(sorted(self.cluster.machines), 30)
        return Failure(
            STUCK if _is_stuck(error) else type(error).__name__,
            str(error) or "no message",
            self.virtual_s,
            tuple("".join(lines).splitlines()),
            tuple(map(str, events)),
        )

    def _counts(self) -> Counter[str]:
        counts = Counter(fault.step.verb for fault in self.plan.faults)
        if self.cluster is not None:
            counts += self.noted
            counts["acknowledged appends"] = self.cluster.history.count("append", OperationOutcome.OK)
            counts["reads"] = self.cluster.history.count("read", OperationOutcome.OK)
            counts["barrier reads"], counts["lease reads"] = self.cluster.history.reads_behind_barriers()
            if self.cluster.agreement is not None:
                counts["acknowledged commands"] = self.cluster.agreement.acknowledged
                counts["answered queries"] = len(self.cluster.agreement.answered)
            for outcome, name in _CHANGES.items():
                counts[name] = sum(self.cluster.history.count(kind, outcome) for kind in ADMINISTRATION)
            facts = self.cluster.facts
            counts["voter sets committed"] = len(facts.committed.voter_sets)
            counts["voter sets truncated"] = facts.voters.truncated_sets
        return counts


def _violation(violated: InvariantViolated) -> Failure:
    violation = violated.violation
    rule = f"invariant {violation.invariant}" if violation.invariant else "simulation"
    return Failure(rule, violation.title, violation.time_s, violation.facts, tuple(map(str, violated.last_events)))


def _is_stuck(error: BaseException | None) -> bool:
    """Whether the watchdog ended the run, even if its alarm made Trio fail with an error of its own."""
    if isinstance(error, BaseExceptionGroup) and any(_is_stuck(member) for member in error.exceptions):
        return True
    return error is not None and (
        isinstance(error, Stuck) or _is_stuck(error.__cause__) or _is_stuck(error.__context__)
    )


_DEFAULTS: Final = PlanOptions()

_LATER: Final = 1.25
"""The caller of a run waits this many times the run's own limit."""


class Runs(Protocol):
    """Runs any seed.  It must be picklable to be sent to other processes."""

    @property
    def limit_s(self) -> float:
        """The CPU seconds after which a run counts as stuck."""
        ...

    def run(self, seed: int) -> Outcome: ...

    def run_traced(self, seed: int, path: str) -> Outcome:
        """The same run with its trace in a file.  Raises OSError."""
        ...

    def replay(self, seed: int) -> str:
        """The command that runs the seed again."""
        ...


@attrs.frozen
class SeedRuns:
    """The simulator's own runs."""

    options: PlanOptions

    @property
    def limit_s(self) -> float:
        return cpu_limit_s(self.options.duration_us) * _LATER

    def run(self, seed: int) -> Outcome:
        return run_seed(seed, self.options)

    def run_traced(self, seed: int, path: str) -> Outcome:
        return run_seed(seed, self.options, TraceTo(path, self.replay(seed)))

    def replay(self, seed: int) -> str:
        return shlex.join(["kraft", "simulate", "--seed", str(seed), *_words(self.options)])

    def settings(self) -> dict[str, object]:
        """Everything apart from the seed that decides the runs, by the names of the command-line options."""
        options = self.options
        of_witness = {"witness": True} if options.witness else {}
        of_machine = {} if options.state_machine is None else {"state machine": options.state_machine}
        return (
            of_witness
            | of_machine
            | {
                "nodes": options.voters,
                "observers": options.observers,
                "time": duration_text(options.duration_us),
                "faults": "clique" if options.clique else ",".join(options.profiles) or "none",
            }
        )


def _words(options: PlanOptions) -> list[str]:
    """The options that differ from the defaults, as on the command line."""
    words: list[str] = []
    if options.voters is not None:
        words += ["--nodes", str(options.voters)]
    if options.observers is not None:
        words += ["--observers", str(options.observers)]
    if options.duration_us != _DEFAULTS.duration_us:
        words += ["--time", duration_text(options.duration_us)]
    if options.profiles != _DEFAULTS.profiles:
        words += ["--faults", ",".join(options.profiles) or "none"]
    if options.clique:
        words.append("--clique")
    if options.witness:
        words.append("--witness")
    if options.state_machine is not None:
        words += [MACHINE_OPTION, options.state_machine]
    if options.serde is not None:
        words += [SERDE_OPTION, options.serde]
    return words
