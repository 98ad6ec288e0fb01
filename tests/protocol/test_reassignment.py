"""The planner of reassignments, against all orders of the same steps (KIP-642)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.reassignment import Add, Done, HandOver, Remove, Step, Wait, next_step
from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import ReplicaKey

Keys = frozenset[ReplicaKey]
Statuses = Mapping[ReplicaKey, Health]


def key(name: str) -> ReplicaKey:
    """`3` is replica 3, and `3'` is the same id on another disk."""
    id = int(name.rstrip("'"))
    return ReplicaKey(id, UUID(int=100 * name.count("'") + id))


def keys(names: str) -> Keys:
    return frozenset(map(key, names.split()))


def step_of(voters: Keys, target: Keys, health: Statuses, leader: ReplicaKey) -> Step:
    return next_step(voters, target, {k: ReplicaHealth(s, s.value) for k, s in health.items()}, leader)


def tolerance(voters: Keys, health: Statuses) -> int:
    return sum(health[key] is Health.UP for key in voters) - (len(voters) // 2 + 1)


def walk(voters: Keys, target: Keys, health: Statuses, leader: ReplicaKey) -> tuple[list[Step], list[Keys]]:
    """All steps, and the voters after each, while nobody's health changes.  Another voter leads after a hand-over."""
    steps: list[Step] = []
    sets = [voters]
    while True:
        step = step_of(voters, target, health, leader)
        steps.append(step)
        match step:
            case Add(added):
                assert added in target - voters
                assert health[added] is Health.UP
                assert all(voter.id != added.id for voter in voters)
                voters |= {added}
            case Remove(removed):
                assert removed in voters - target
                assert removed != leader
                voters -= {removed}
            case HandOver():
                assert leader not in target
                leader = min(key for key in voters - {leader} if health[key] is Health.UP)
            case Wait() | Done():
                return steps, sets
        sets.append(voters)


def told(steps: list[Step]) -> str:
    words = []
    for step in steps:
        match step:
            case Add(added):
                words.append(f"+{added.id}")
            case Remove(removed):
                words.append(f"-{removed.id}")
            case HandOver():
                words.append("hand over")
            case Wait(reason):
                words.append(reason)
            case Done():
                words.append("done")
    return " ".join(words)


ALL_UP = ""


@pytest.mark.parametrize(
    ("voters", "target", "offline", "lagging", "steps"),
    [
        ("1 2 3", "1 2 3", ALL_UP, "", "done"),
        ("1 2 3", "4 5 6", ALL_UP, "", "+4 -2 +5 -3 +6 hand over -1 done"),
        ("1", "1 2 3 4 5", ALL_UP, "", "+2 +3 +4 +5 done"),
        ("1 2 3 4 5", "1", ALL_UP, "", "-2 -3 -4 -5 done"),
        ("1 2 3", "2", ALL_UP, "", "-3 hand over -1 done"),
        # A dead voter goes first: its removal costs nothing, and the majority becomes smaller.
        ("1 2 3", "1 2 4", "3", "", "-3 +4 done"),
        ("1 2 3 4 5", "1 2 3", "5", "", "-5 -4 done"),
        # A lagging one goes after the newcomer.
        ("1 2 3", "1 2 4", "", "3", "+4 -3 done"),
        # The same id on another disk: at an even number of voters its removal costs nothing.
        ("1 2 3", "1 2 3'", "3", "", "-3 +3 done"),
        ("1 2 3", "1 2 3'", "", "", "-3 +3 done"),
        ("1 2 3", "1 2 3' 4", "", "", "+4 -3 +3 done"),
        ("1 2 3 4", "1 2 3'", "", "", "-3 +3 -4 done"),
        # The leader's own id moves last, so that there is one election.
        ("1 2 3", "1' 2' 3'", ALL_UP, "", "-2 +2 -3 +3 hand over -1 +1 done"),
        # From an even number of voters, the move costs nothing, so it comes before the voters that only leave.
        ("1 2 3", "1' 2 4", ALL_UP, "", "+4 hand over -1 +1 -3 done"),
        ("1 2 3", "1 2 3'", "3 3'", "", "waiting for 3-AAAAAAAAAAAAAAAAAAAAZw, which offline"),
        # The leader waits for a newcomer before it gives up a voter that the quorum needs.
        ("1 2 3", "4 5 6", "6", "", "+4 -2 +5 -3 waiting for 6-AAAAAAAAAAAAAAAAAAAABg, which offline"),
        (
            "1",
            "1'",
            ALL_UP,
            "",
            f"{key('1')} is the only voter: nobody else could remove it so that its id moves to another disk",
        ),
        ("1 2 3", "1 2 4", "", "4", "waiting for 4-AAAAAAAAAAAAAAAAAAAABA, which lagging"),
        (
            "1 2 3",
            "1 2",
            "2",
            "",
            "only 2 of 3 voters are up, too few to remove one and survive 0 more failures: "
            "2-AAAAAAAAAAAAAAAAAAAAAg, which offline",
        ),
    ],
)
def test_steps_while_nothing_fails(voters: str, target: str, offline: str, lagging: str, steps: str) -> None:
    health = dict.fromkeys(keys(voters) | keys(target), Health.UP)
    health |= dict.fromkeys(keys(offline), Health.OFFLINE) | dict.fromkeys(keys(lagging), Health.LAGGING)
    assert told(walk(keys(voters), keys(target), health, key("1"))[0]) == steps


IDS = range(1, 9)
NAMES = st.sampled_from([f"{id}{disk}" for id in IDS for disk in ("", "'")])
SETS = st.lists(NAMES.map(key), min_size=1, max_size=5, unique_by=lambda key: key.id).map(frozenset)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Keys, Keys, Statuses, ReplicaKey]:
    voters, target = draw(SETS), draw(SETS)
    health = {key: draw(st.sampled_from(Health)) for key in sorted(voters | target)}
    leader = draw(st.sampled_from(sorted(voters)))
    return voters, target, health | {leader: Health.UP}, leader


def best_of_all_orders(voters: Keys, target: Keys, health: Statuses) -> int:
    """The tolerance at its lowest, in the order in which that is highest."""

    @cache
    def best_from(voters: Keys) -> int:
        ids = {voter.id for voter in voters}
        following = [voters | {key} for key in target - voters if key.id not in ids]
        following += [voters - {key} for key in voters - target]
        now = tolerance(voters, health)
        return min(now, max(map(best_from, following))) if following else now

    return best_from(voters)


@given(situations())
def test_no_order_survives_more(situation: tuple[Keys, Keys, Statuses, ReplicaKey]) -> None:
    """Once all newcomers are up, the target is reached with one step per difference and at most one election.

    There may be one more if ids move to another disk.
    """
    voters, target, health, leader = situation
    health = {**health, **dict.fromkeys(target - voters, Health.UP)}
    steps, sets = walk(voters, target, health, leader)
    lowest = min(tolerance(voters, health) for voters in sets)
    best = best_of_all_orders(voters, target, health)
    if best >= 0:
        assert steps[-1] == Done()
        assert lowest == best
        assert len([step for step in steps if isinstance(step, Add | Remove)]) == len(voters ^ target)
        moves_id = any(key.id == gone.id for key in target - voters for gone in voters - target)
        assert steps.count(HandOver()) <= (leader not in target) + moves_id


@given(situations())
def test_no_step_stops_a_quorum_that_works(situation: tuple[Keys, Keys, Statuses, ReplicaKey]) -> None:
    voters, target, health, leader = situation
    _, sets = walk(voters, target, health, leader)
    newcomers_up = {**health, **dict.fromkeys(target - voters, Health.UP)}
    for before, after in pairwise(sets):
        survives_now, survives_after = tolerance(before, health), tolerance(after, health)
        moves_id = any(gone.id == key.id for gone in before - after for key in target - before)
        bound = max(0, min(survives_now, tolerance(target, newcomers_up)) - moves_id)
        assert before == after or survives_after >= bound


@given(situations())
def test_a_wait_ends_when_all_newcomers_are_up(situation: tuple[Keys, Keys, Statuses, ReplicaKey]) -> None:
    """It is not the planner that keeps a target from being reached."""
    voters, target, health, leader = situation
    steps, sets = walk(voters, target, health, leader)
    everyone_up = dict.fromkeys(health, Health.UP)
    moves_only_voter = len(voters) == len(target) == 1 and {key.id for key in voters} == {key.id for key in target}
    if isinstance(steps[-1], Wait) and not moves_only_voter:
        assert not isinstance(step_of(sets[-1], target, everyone_up, leader), Wait)


def test_an_unknown_newcomer_is_named() -> None:
    step = next_step(keys("1"), keys("1 4"), {}, key("1"))
    assert step == Wait(f"waiting for {key('4')}, which is unknown to the leader")
