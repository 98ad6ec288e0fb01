"""Many seeds over processes: every outcome once, in order where one process runs them, and what a death costs."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter

import attrs
import pytest

from kraft_trio.simulation.campaign import campaign
from kraft_trio.simulation.campaign.campaign import CampaignError, Summary, run_campaign
from kraft_trio.simulation.campaign.outcome import Failure, Outcome

FAILURE = Failure("invariant 1", "At most one leader per epoch", 1.5, ("1 leads epoch 3", "2 leads epoch 3"))


def fake_run(seed: int) -> Outcome:
    failure = FAILURE if seed % 5 == 3 else None
    return Outcome(seed, failure, 60.0, 0.5, f"digest-{seed}", {"elections": seed, "kill": 1})


def die_at_seed_4(seed: int) -> Outcome:
    if seed == 4:
        os._exit(1)
    return fake_run(seed)


def fail_at_seed_4(seed: int) -> Outcome:
    if seed == 4:
        raise ZeroDivisionError("seed 4")
    return fake_run(seed)


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_outcome_comes_once_and_adds_up(jobs: int) -> None:
    seen: list[Outcome] = []
    summary = run_campaign(range(10), fake_run, jobs=jobs, on_outcome=seen.append)
    assert sorted(seen, key=lambda outcome: outcome.seed) == [fake_run(seed) for seed in range(10)]
    assert (summary.seeds, summary.virtual_s, summary.real_s, summary.speed) == (10, 600.0, 5.0, 120.0)
    assert summary.counts == {"elections": 45, "kill": 10}
    assert sorted(outcome.seed for outcome in summary.violations) == [3, 8]


def test_one_job_runs_them_in_order_as_they_are_asked_for() -> None:
    started: list[int] = []

    def run_seed(seed: int) -> Outcome:
        started.append(seed)
        return fake_run(seed)

    ended: list[int] = []

    def ends(outcome: Outcome) -> None:
        ended.append(outcome.seed)
        assert started == ended

    run_campaign(iter([5, 3, 9]), run_seed, jobs=1, on_outcome=ends)
    assert ended == [5, 3, 9]


def test_seeds_are_handed_out_as_there_is_room_for_them() -> None:
    handed_out = 0

    def seeds():  # type: ignore[no-untyped-def]
        nonlocal handed_out
        for seed in range(100):
            handed_out += 1
            yield seed

    most_ahead = 0
    seen = 0

    def ends(_outcome: Outcome) -> None:
        nonlocal most_ahead, seen
        most_ahead = max(most_ahead, handed_out - seen)
        seen += 1

    assert run_campaign(seeds(), fake_run, jobs=2, on_outcome=ends).seeds == 100
    assert most_ahead <= 8


def tell_the_process(seed: int) -> Outcome:
    return attrs.evolve(fake_run(seed), digest=str(os.getpid()))


def test_processes_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "_RUNS_OF_A_PROCESS", 2)
    seen: list[Outcome] = []
    assert run_campaign(range(9), tell_the_process, jobs=2, on_outcome=seen.append).seeds == 9
    assert {outcome.seed for outcome in seen} == set(range(9))
    runs = Counter(outcome.digest for outcome in seen)
    assert 3 <= len(runs) <= 6
    assert max(runs.values()) <= 4


def test_no_process_is_left_when_all_seeds_have_run() -> None:
    run_campaign(range(9), fake_run, jobs=2)
    assert multiprocessing.active_children() == []


def test_a_dying_process_ends_the_campaign_with_its_seeds() -> None:
    with pytest.raises(CampaignError, match=r"a process died while it ran one of the seeds .*\b4\b"):
        run_campaign(range(6), die_at_seed_4, jobs=2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bug_in_the_run_itself_comes_out(jobs: int) -> None:
    with pytest.raises(ZeroDivisionError, match="seed 4"):
        run_campaign(range(6), fail_at_seed_4, jobs=jobs)


def test_the_summary_in_words() -> None:
    summary = Summary()
    assert list(summary.lines(0.0)) == [
        "0 seeds, 0.00 virtual hours in 0.0 s (0 virtual seconds a second and process), 0 violations"
    ]
    summary = run_campaign(range(60), fake_run, jobs=1)
    assert list(summary.lines(4.25)) == [
        "60 seeds, 1.00 virtual hours in 4.2 s (120 virtual seconds a second and process), 12 violations",
        "elections 1770, kill 60",
    ]
    assert summary.counts == Counter(elections=1770, kill=60)
