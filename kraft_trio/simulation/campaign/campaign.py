"""Many runs in several processes: their outcomes one by one, the summary and the report."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, groupby, islice
from multiprocessing.connection import wait as wait_for_any
from typing import Any, Final, Protocol

import attrs

from kraft_trio.errors import KraftError
from kraft_trio.simulation.campaign.outcome import COVERED, Failure, Outcome

AHEAD = 4
"""Seeds that are handed out per process: enough to keep it busy, few enough to stop soon."""

_RUNS_OF_A_PROCESS = 200
"""The average number of runs before the processes are replaced, so that leftovers do not add up over thousands."""

SLOWEST: Final = 5
"""How many of the slowest elections a summary lists."""


class CampaignError(KraftError):
    """A process that ran seeds has died; the message names the seeds that it may have been running."""


@attrs.define
class Summary:
    """The results of a campaign so far."""

    seeds: int = 0
    violations: list[Outcome] = attrs.field(factory=list)
    virtual_s: float = 0.0
    real_s: float = 0.0
    """The sum over all processes."""
    counts: Counter[str] = attrs.field(factory=Counter)
    faults: Counter[str] = attrs.field(factory=Counter)
    transitions: Counter[str] = attrs.field(factory=Counter)
    slowest_elections: list[Outcome] = attrs.field(factory=list)
    """The runs with the slowest elections, slowest first, at most SLOWEST."""

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of one more run."""
        self.seeds += 1
        self.virtual_s += outcome.virtual_s
        self.real_s += outcome.real_s
        self.counts.update(outcome.counts)
        self.faults.update(outcome.faults)
        self.transitions.update(outcome.transitions)
        if outcome.slowest_election_us is not None:
            slowest = sorted([*self.slowest_elections, outcome], key=_slowest_first)
            self.slowest_elections = slowest[:SLOWEST]
        if outcome.failure is not None:
            self.violations.append(outcome)

    @property
    def speed(self) -> float:
        """Virtual seconds per real second of one process; 0 before the first run."""
        return self.virtual_s / self.real_s if self.real_s else 0.0

    def lines(self, elapsed_s: float) -> Iterator[str]:
        """The summary that is printed at the end."""
        yield self.headline(elapsed_s)
        if self.counts:
            yield in_words(self.counts)

    def headline(self, elapsed_s: float) -> str:
        return (
            f"{self.seeds} seeds, {self.virtual_s / 3600:.2f} virtual hours in {elapsed_s:.1f} s "
            f"({self.speed:.0f} virtual seconds a second and process), {len(self.violations)} violations"
        )


def in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _slowest_first(outcome: Outcome) -> tuple[int, int]:
    return -(outcome.slowest_election_us or 0), outcome.seed


def run_campaign(
    seeds: Iterable[int],
    run_seed: Callable[[int], Outcome],
    *,
    jobs: int,
    on_outcome: Callable[[Outcome], object] = lambda _outcome: None,
) -> Summary:
    """Run every seed, `jobs` at a time, and call `on_outcome` when each one ends.

    With one job, the seeds run in this process, in order.  With more, `run_seed` must be picklable, and outcomes come
    in the order in which runs end.  Raises CampaignError if a process dies, and whatever `run_seed` raises; both end
    the other runs.
    """
    summary = Summary()
    outcomes = map(run_seed, seeds) if jobs == 1 else _outcomes_of_processes(seeds, run_seed, jobs)
    for outcome in outcomes:
        summary.add(outcome)
        on_outcome(outcome)
    return summary


def _outcomes_of_processes(seeds: Iterable[int], run_seed: Callable[[int], Outcome], jobs: int) -> Iterator[Outcome]:
    seeds = iter(seeds)
    for seed in seeds:
        of_a_pool = chain((seed,), islice(seeds, jobs * _RUNS_OF_A_PROCESS - 1))
        yield from _outcomes_of_a_pool(of_a_pool, run_seed, jobs)


def _outcomes_of_a_pool(waiting: Iterator[int], run_seed: Callable[[int], Outcome], jobs: int) -> Iterator[Outcome]:
    running: dict[Future[Outcome], int] = {}
    pool = new_pool(jobs)
    try:
        while True:
            for seed in islice(waiting, jobs * AHEAD - len(running)):
                running[pool.submit(run_seed, seed)] = seed
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=running.__getitem__):
                yield future.result()
                del running[future]
    except BrokenProcessPool as error:
        seeds_text = ", ".join(map(str, sorted(running.values())))
        raise CampaignError(f"a process died while it ran one of the seeds {seeds_text}") from error
    finally:
        end_pool(pool, is_idle=not running)


def new_pool(jobs: int) -> ProcessPoolExecutor:
    """Fresh processes that end at an interrupt, and with this one; they are forks of one that has imported what a run
    needs.

    They are not replaced one by one: with `max_tasks_per_child`, the pool of Python 3.11 may wait forever for its last
    tasks.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kraft_trio.simulation.campaign.seed_run"])
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_process)


def end_pool(pool: ProcessPoolExecutor, *, is_idle: bool) -> None:
    """End the processes.  If they are idle, wait until they have ended.

    If Python ended before them, the pool's threads would write to closed pipes, and print that.
    """
    pool.shutdown(wait=is_idle, cancel_futures=True)


def _begin_process() -> None:
    # Ctrl-C reaches every process of the terminal; the children end silently.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed closes no queue, and its processes would wait for seeds forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_any([parent.sentinel])
    os._exit(1)


def report(summary: Summary, elapsed_s: float, replay: Callable[[int], str]) -> Iterator[str]:
    """The report, line by line; `replay` returns the command that runs a seed again."""
    yield summary.headline(elapsed_s)
    happened = {name: count for name, count in summary.counts.items() if name not in summary.faults}
    if happened:
        yield in_words(happened)
    if summary.faults:
        yield f"faults injected: {summary.faults.total()} ({in_words(summary.faults)})"
    yield from _transitions(summary)
    for outcome in summary.slowest_elections:
        took_s, at_s = (outcome.slowest_election_us or 0) / 1e6, (outcome.slowest_election_at_us or 0) / 1e6
        yield f"slow election: {took_s:.3f} s, at {at_s:.3f} s: {replay(outcome.seed)}"
    yield from violations(summary.violations, replay)


def report_fields(summary: Summary, elapsed_s: float, replay: Callable[[int], str]) -> dict[str, Any]:
    """The report as a JSON value."""
    return {
        "seeds": summary.seeds,
        "virtualSeconds": summary.virtual_s,
        "seconds": elapsed_s,
        "counts": dict(sorted(summary.counts.items())),
        "faults": dict(sorted(summary.faults.items())),
        "transitions": dict(sorted(summary.transitions.items())),
        "violations": violation_fields(summary.violations, replay),
    }


def _transitions(summary: Summary) -> Iterator[str]:
    if summary.transitions:
        missing = [name for name in COVERED if name not in summary.transitions]
        never = f"; never: {', '.join(missing)}" if missing else ""
        yield f"role transitions: {len(COVERED) - len(missing)} of {len(COVERED)} kinds taken{never}"


class Failed(Protocol):
    """A seed that has failed."""

    @property
    def seed(self) -> int: ...

    @property
    def failure(self) -> Failure | None: ...


def violations(failed: Iterable[Failed], replay: Callable[[int], str]) -> Iterator[str]:
    """By rule, the commands that run the seeds again, line by line."""
    for (rule, title), group in groupby(sorted(failed, key=_rule_and_seed), key=_rule):
        seeds = [one.seed for one in group]
        yield f"{rule} ({title}): {len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'}"
        for seed in seeds:
            yield f"  {replay(seed)}"


def violation_fields(failed: Iterable[Failed], replay: Callable[[int], str]) -> list[dict[str, Any]]:
    """By seed, each as a JSON value."""
    return [
        {
            "seed": one.seed,
            "rule": one.failure.rule,
            "title": one.failure.title,
            "virtualSeconds": one.failure.time_s,
            "facts": one.failure.facts,
            "replay": replay(one.seed),
        }
        for one in sorted(failed, key=lambda one: one.seed)
        if one.failure is not None
    ]


def _rule(failed: Failed) -> tuple[str, str]:
    assert failed.failure is not None
    return failed.failure.rule, failed.failure.title


def _rule_and_seed(failed: Failed) -> tuple[str, str, int]:
    return *_rule(failed), failed.seed
