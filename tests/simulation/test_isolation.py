"""One bad seed harms no other: what each kind of it comes to, in the process at hand and in one of its own."""

from __future__ import annotations

import faulthandler
import os
import signal

import pytest

from kraft_trio.simulation.campaign.chunks import chunk_size, chunks_of, run_chunk
from kraft_trio.simulation.campaign.isolation import forked, guarded
from kraft_trio.simulation.campaign.outcome import Failure, Outcome
from tests.simulation.bad_runs import DIES, IS_KILLED, LIMIT_S, LOOPS, RAISES, BadRuns

pytestmark = pytest.mark.rotating(2)

RUN = BadRuns().run


def failure_of(outcome: Outcome) -> Failure:
    assert outcome.failure is not None
    return outcome.failure


@pytest.mark.parametrize("isolate", [guarded, forked])
def test_a_good_seed_is_as_it_is(isolate) -> None:  # type: ignore[no-untyped-def]
    assert isolate(1, RUN, LIMIT_S) == RUN(1)


@pytest.mark.parametrize("isolate", [guarded, forked])
def test_an_exception_is_an_outcome(isolate) -> None:  # type: ignore[no-untyped-def]
    outcome = isolate(RAISES, RUN, LIMIT_S)
    assert (outcome.seed, failure_of(outcome).rule, failure_of(outcome).title) == (3, "ZeroDivisionError", "seed 3")
    assert any("bad_runs.py" in line for line in failure_of(outcome).facts)
    assert not outcome.can_be_repeated


@pytest.mark.parametrize("isolate", [guarded, forked])
def test_a_seed_without_end_is_ended(isolate) -> None:  # type: ignore[no-untyped-def]
    before = [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGPROF)]
    outcome = isolate(LOOPS, RUN, LIMIT_S)
    assert (outcome.seed, failure_of(outcome).rule, failure_of(outcome).title) == (
        LOOPS,
        "stuck",
        f"still running after {LIMIT_S} s",
    )
    assert [signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGPROF)] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize(("seed", "ending"), [(DIES, "exit code 7"), (IS_KILLED, "ended by SIGKILL")])
def test_a_seed_that_ends_its_process_is_an_outcome_elsewhere(seed: int, ending: str) -> None:
    outcome = forked(seed, RUN, LIMIT_S)
    assert (outcome.seed, failure_of(outcome).rule, failure_of(outcome).facts) == (seed, "died", (ending,))
    assert not outcome.can_be_repeated


def test_a_seed_that_not_even_its_process_can_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[int] = []
    fork = os.fork

    def noted() -> int:
        child = fork()
        children.append(child)
        return child

    def deaf(seed: int) -> Outcome:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGPROF})
        faulthandler.cancel_dump_traceback_later()
        signal.pause()
        return RUN(seed)

    monkeypatch.setattr(os, "fork", noted)
    outcome = forked(1, deaf, 0.02)
    assert failure_of(outcome).rule == "stuck"
    assert failure_of(outcome).title.startswith("still running after ")
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)


def test_a_chunk_has_every_seed_whatever_becomes_of_one() -> None:
    first = list(run_chunk((1, RAISES, 4, LOOPS, 9), RUN, limit_s=LIMIT_S, attempt=0))
    again = list(run_chunk((1, DIES, 4, IS_KILLED, 9), RUN, limit_s=LIMIT_S, attempt=1))
    assert [outcome.seed for outcome in first] == [1, RAISES, 4, LOOPS, 9]
    assert [None if o.failure is None else o.failure.rule for o in first] == [
        None,
        "ZeroDivisionError",
        None,
        "stuck",
        "invariant 5",
    ]
    assert [None if o.failure is None else o.failure.rule for o in again] == [
        None,
        "died",
        None,
        "died",
        "invariant 5",
    ]


def test_chunks_have_all_seeds_in_order() -> None:
    assert list(chunks_of(range(3, 10), 3)) == [(3, 4, 5), (6, 7, 8), (9,)]
    assert list(chunks_of([], 3)) == []


@pytest.mark.parametrize(
    ("seeds", "duration_s", "cores", "size"),
    [
        (10_000, 60, 2, 1),  # A minute of faults is work enough for a task.
        (10_000, 1, 2, 6),
        (12, 1, 2, 1),  # Each core has several tasks.
        (1_000_000, 60, 2, 50),  # And there are not too many of them.
        (1, 60, 64, 1),
    ],
)
def test_a_task_takes_about_a_second(seeds: int, duration_s: int, cores: int, size: int) -> None:
    assert chunk_size(seeds, duration_s * 1_000_000, cores) == size
