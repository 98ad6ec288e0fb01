"""All nodes of a random cluster get other addresses at once, and only gossip brings the voters together again."""

from __future__ import annotations

import random

import pytest

from kraft_trio.simulation.campaign.seed_run import run_plan
from kraft_trio.simulation.faults.nemesis import FAULT_KINDS
from kraft_trio.simulation.faults.plan import SECOND_US, Plan, Timeline
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.recovery.demands import COMMITS
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script
from kraft_trio.simulation.script.steps import runs
from kraft_trio.tracing.events import TraceEvent

pytestmark = pytest.mark.rotating(2)

FETCH_TIMEOUT_US = 2 * SECOND_US
MOVES_AT_US = 3 * SECOND_US
SEEDS = range(12)


def plan_of(seed: int, *, gossip: bool) -> Plan:
    """When the last node has started at its new address, something must commit within ten fetch timeouts."""
    source = random.Random(f"{seed}/moved")
    voters, observers = source.randint(2, 5), source.randint(0, 2)
    header = Header(
        seed=seed,
        voters=tuple(range(1, voters + 1)),
        observers=tuple(range(voters + 1, voters + observers + 1)),
        settings=(("kraft.voter.gossip.enable", str(gossip).lower()),),
    )
    timeline = Timeline(source, header, MOVES_AT_US + 10 * SECOND_US)
    FAULT_KINDS["move_all"].make(timeline, MOVES_AT_US)
    return Plan(
        header=header,
        clients=2,
        clients_every_us=SECOND_US // 2,
        duration_us=timeline.steps[-1].at_us,
        faults=tuple(timeline.steps),
        ending=(runs.demand_commit(within_us=10 * FETCH_TIMEOUT_US),),
        # Without gossip, a fair run would not move all of them.
        is_fair_by_itself=not gossip,
    )


@pytest.mark.rotating(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_within_ten_fetch_timeouts_it_commits_again(seed: int) -> None:
    outcome = run_plan(plan_of(seed, gossip=True))
    assert outcome.failure is None
    assert outcome.counts["elections"] >= 2


@pytest.mark.rotating(4)
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_without_gossip_nobody_is_elected_in_that_time(seed: int) -> None:
    leaders: list[int | None] = []

    def note(event: TraceEvent) -> None:
        if event.kind == "role" and event.role == "Leader" and event.time_us > MOVES_AT_US:
            leaders.append(event.node)

    outcome = run_plan(plan_of(seed, gossip=False), lambda trace: trace.listeners.append(note))
    assert outcome.failure is not None
    assert outcome.failure.title == COMMITS
    assert leaders == []


SOLE_VOTER = """\
seed 1
voters 1
observers 2 3

fair
clients 1 every 500ms
at 1s
reassign 3
at 3s
move 3
at 3100ms
restart 3
at 4s
recover
"""


def test_observers_find_the_only_voter_when_it_has_moved() -> None:
    """Seed 1918: it leads at once, so it gossips with nobody.  They look for it at its old address."""
    assert run_script(parse_script(SOLE_VOTER)).failure is None


RESTARTED = """\
seed 930123
voters 1
observers 3

fair
clients 1 every 4s
at 2s
reassign 3
at 8s
move 3
restart 3
at 10s
kill 3
at 10s
recover
"""
"""It lists its new address in the log while the observer, its bootstrap server, does not believe in that yet."""


def test_observers_find_it_after_it_has_listed_its_new_address() -> None:
    """Seed 930123: the log of the leader was right, so nothing told the bootstrap server that asks elsewhere."""
    assert run_script(parse_script(RESTARTED)).failure is None
