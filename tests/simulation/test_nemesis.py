"""Random plans: pure, fair, of every kind of fault, several at a time, and each of them a script."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from kraft_trio.errors import ConfigError
from kraft_trio.simulation.faults.nemesis import FAULT_KINDS, PROFILES, PlanOptions, is_fair, make_plan, parse_profiles
from kraft_trio.simulation.faults.plan import Plan, TimedStep
from kraft_trio.simulation.script.header import Header
from kraft_trio.simulation.script.run import SNAPSHOTS_KEY
from kraft_trio.simulation.script.script import parse_script
from kraft_trio.simulation.script.steps import clock, disk, process

pytestmark = pytest.mark.rotating(2)

SEEDS = range(250)

VERBS = {
    "network": {
        *("cut", "isolate", "bridge", "ring", "one-way", "requests-only", "answers-only", "clog", "unclog", "heal"),
        *("latency", "loss", "resets", "cut-frames", "duplicates", "intrude", "lie", "strike-leader"),
        *("misadvertise", "advertise", "restart"),
    },
    "process": {
        *("kill", "stop", "restart", "pause", "resume", "start", "campaign", "strike-leader", "heal", "transfer"),
        *("resign", "strike-at"),
    },
    "disk": {
        *("crash", "crash-in", "start", "restart", "slow-disk", "fail-sync", "fail-write", "full-disk", "free-disk"),
        *("blank-disk", "rot", "keep-disk", "stale-disk", "blank-majority"),
    },
    "time": {"drift", "jump-clock", "restart"},
    "versions": {"older", "newer"},
    "membership": {
        *("add-voter", "remove-voter", "remove-leader", "upgrade", "move", "blank-disk"),
        *("reassign", "cancel-reassignment", "kill", "crash"),
        *("strike-leader", "start", "restart", "resume", "heal", "slow-disk"),
    },
    "snapshots": {
        *("take-snapshot", "crash-in", "fail-sync", "fail-write", "full-disk", "free-disk", "rot", "blank-disk"),
        *("kill", "crash", "start", "restart", "resume", "isolate", "heal", "resets", "cut-frames"),
        *("strike-fetcher", "strike-leader"),
    },
}


@cache
def plan_of(seed: int) -> Plan:
    return make_plan(seed, PlanOptions())


def digest_of_plans() -> str:
    texts = "".join(make_plan(seed, PlanOptions()).script().text for seed in range(30))
    return hashlib.sha256(texts.encode()).hexdigest()


@pytest.mark.nightly
def test_a_seed_gives_the_same_plan_in_every_process() -> None:
    program = "from tests.simulation.test_nemesis import digest_of_plans; print(digest_of_plans())"
    command = [sys.executable, "-c", program]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
        assert done.stdout.strip() == digest_of_plans()


def test_clocks_drift_as_leases_allow_in_runs_with_queries() -> None:
    options = PlanOptions(state_machine="examples.bank:Bank", serde="examples.bank:SERDE")
    limits = Counter[str]()
    for seed in range(60):
        plan = make_plan(seed, options)
        limit = dict(plan.header.settings).get("kraft.read.lease.max.clock.drift.ppm")
        limits[str(limit)] += 1
        if limit is not None:
            drifts = [fault.step for fault in plan.faults if fault.step.kind is clock.drift]
            at_once = [
                fault.step.values["node"]
                for fault in plan.faults
                if fault.at_us == 0 and fault.step.kind is clock.drift
            ]
            assert {*plan.header.nodes} <= {*at_once}
            assert all(abs(drift.values["drift_ppm"]) <= int(limit) for drift in drifts)
    assert min(limits.values()) >= 20, limits


def test_seeds_give_different_plans() -> None:
    assert len({plan_of(seed).script().text for seed in SEEDS}) == len(SEEDS)


def test_a_plan_is_in_order_and_is_the_script_that_it_prints() -> None:
    for seed in SEEDS:
        plan = plan_of(seed)
        times = [fault.at_us for fault in plan.faults]
        assert times == sorted(times), f"seed {seed}"
        assert all(0 <= time < plan.duration_us for time in times), f"seed {seed}"
        script = parse_script(plan.script("why").text)
        assert script.header == plan.header, f"seed {seed}"
        assert script.steps == tuple(plan.steps()), f"seed {seed}"
        assert script.steps[-1].verb == "recover", f"seed {seed}"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_brings_its_own_faults_and_all_of_them(profile: str) -> None:
    options = PlanOptions(profiles=(profile,))
    seen = Counter(fault.step.verb for seed in range(60) for fault in make_plan(seed, options).faults)
    assert set(seen) == VERBS[profile]


def test_without_faults_there_are_only_clients_and_recovery() -> None:
    plan = make_plan(3, PlanOptions(profiles=()))
    assert plan.faults == ()
    assert [step.verb for step in plan.steps()] == ["clients", "at", "recover"]


def test_every_kind_of_fault_has_a_profile() -> None:
    assert {kind.profile for kind in FAULT_KINDS.values()} == set(PROFILES)


def test_clusters_of_every_shape() -> None:
    headers = [plan_of(seed).header for seed in SEEDS]
    assert {len(header.voters) for header in headers} == {1, 2, 3, 4, 5}
    steady = [plan.header for plan in map(plan_of, SEEDS) if plan.is_fair_by_itself]
    assert {len(header.observers) for header in steady} == {0, 1, 2}
    assert {header.kraft_version for header in headers} == {0, 1}
    segments = [int(dict(header.settings).get("metadata.log.segment.bytes", "0")) for header in headers]
    assert 0 in segments
    assert 1024 in segments
    sizes = Counter(len(header.voters) for header in headers)
    assert sizes[3] > sizes[5] > sizes[1]
    changing = [plan.header for plan in map(plan_of, SEEDS) if not plan.is_fair_by_itself]
    assert len(SEEDS) // 2 < len(changing) < len(SEEDS)
    assert {len(header.voters) for header in changing} == {1, 2, 3, 4, 5}
    assert {len(header.observers) for header in changing} == {0, 1, 2, 3, 4, 5}
    assert {header.kraft_version for header in changing} == {0, 1}
    joins = [dict(header.settings).get("controller.quorum.auto.join.enable") for header in changing]
    assert {"true", None} == set(joins)


def test_where_snapshots_are_taken_they_are_taken_often() -> None:
    settings = [dict(plan_of(seed).header.settings) for seed in SEEDS]
    between = [int(of.get(SNAPSHOTS_KEY, "0")) for of in settings]
    assert len(SEEDS) // 2 < sum(map(bool, between)) < len(SEEDS)
    assert max(between) < 50_000
    assert all("metadata.max.retention.bytes" in of for of in settings if SNAPSHOTS_KEY in of)
    changing = [plan_of(seed) for seed in SEEDS if not plan_of(seed).is_fair_by_itself]
    assert {SNAPSHOTS_KEY in dict(plan.header.settings) for plan in changing} == {True, False}
    without = PlanOptions(profiles=tuple(profile for profile in PROFILES if profile != "snapshots"))
    assert not any(SNAPSHOTS_KEY in dict(make_plan(seed, without).header.settings) for seed in SEEDS)


def test_where_voters_change_there_are_nodes_to_change_them_with() -> None:
    """One node alone could neither gain a voter nor lose one."""
    for seed in range(100):
        header = make_plan(seed, PlanOptions(profiles=("membership",))).header
        assert len(header.nodes) >= 2


def test_what_the_options_say_the_seed_does_not_decide() -> None:
    for seed in range(20):
        header = make_plan(seed, PlanOptions(voters=5, observers=2)).header
        assert (header.voters, header.observers) == ((1, 2, 3, 4, 5), (6, 7))


def test_faults_of_different_kinds_are_in_force_at_once() -> None:
    """In some plan a process is dead, another paused and the network cut, all at one time."""
    assert any(most_at_once(plan_of(seed)) >= 3 for seed in SEEDS)


def most_at_once(plan: Plan) -> int:
    """The largest number of: a node that is down, one that is paused, a cut."""
    begins = {"kill": "down", "stop": "down", "crash": "down", "blank-disk": "down", "pause": "paused"}
    begins |= dict.fromkeys(("cut", "isolate", "bridge", "ring", "one-way", "requests-only", "answers-only"), "cut")
    ends = {"start": "down", "restart": "down", "resume": "paused", "heal": "cut"}
    in_force: dict[str, set[int]] = {"down": set(), "paused": set(), "cut": set()}
    most = 0
    for fault in plan.faults:
        verb, nodes = fault.step.verb, fault.step.node_ids
        if verb in begins:
            in_force[begins[verb]].update(nodes)
        elif verb in ends:
            in_force[ends[verb]].difference_update(nodes or set(in_force[ends[verb]]))
        most = max(most, sum(bool(nodes) for nodes in in_force.values()))
    return most


LONGEST_DOWN_US = 30_000_000
"""Of a node that is away for so long that it misses snapshots; nodes that are killed together come back sooner."""


def test_nobody_stays_down_while_there_is_time() -> None:
    for seed in SEEDS:
        plan = plan_of(seed)
        down: dict[int, int] = {}
        for fault in plan.faults:
            for node in fault.step.node_ids:
                if fault.step.verb in ("kill", "stop", "crash", "blank-disk"):
                    down.setdefault(node, fault.at_us)
                elif fault.step.verb in ("start", "restart"):
                    down.pop(node, None)
        assert all(at_us >= plan.duration_us - LONGEST_DOWN_US for at_us in down.values())


class TestFairness:
    def test_a_majority_keeps_its_disks(self) -> None:
        for seed in SEEDS:
            plan = plan_of(seed)
            if not plan.is_fair_by_itself:
                # Who is a voter when, only the run knows: then it has to look (tests of survivability), from its
                # first step.
                assert next(plan.steps()).verb == "fair", f"seed {seed}"
                assert plan.header.kraft_version == 1 or not spoiled_nodes(plan) & set(plan.header.voters), (
                    f"seed {seed}"
                )
                continue
            spoiled = {
                fault.step.values["node"] for fault in plan.faults if fault.step.kind in (disk.blank_disk, disk.rot)
            }
            voters = spoiled & set(plan.header.voters)
            assert len(voters) <= (len(plan.header.voters) - 1) // 2, f"seed {seed}"
            if plan.header.kraft_version == 0:
                assert not voters, f"seed {seed}"
                assert not any(fault.step.kind is disk.blank_disk for fault in plan.faults), f"seed {seed}"
            assert is_fair(plan), f"seed {seed}"

    def test_disks_are_spoiled_as_often_as_that_allows(self) -> None:
        counts = Counter(
            (len(plan.header.voters), len(spoiled_nodes(plan) & set(plan.header.voters)))
            for plan in map(plan_of, SEEDS)
        )
        assert counts[3, 1] > 5
        assert counts[5, 2] > 5

    @pytest.mark.parametrize(
        ("voters", "kraft_version", "spoiled", "fair"),
        [
            ((1, 2, 3), 1, (), True),
            ((1, 2, 3), 1, (1,), True),
            ((1, 2, 3), 1, (1, 1), True),
            ((1, 2, 3), 1, (1, 2), False),
            ((1, 2), 1, (1,), False),
            ((1, 2, 3, 4, 5), 1, (1, 2), True),
            ((1, 2, 3, 4, 5), 1, (1, 2, 3), False),
            ((1, 2, 3), 1, (1, 4), True),
            ((1, 2, 3), 0, (4,), True),
            ((1, 2, 3), 0, (1,), False),
        ],
    )
    def test_what_is_fair(
        self, voters: tuple[int, ...], kraft_version: int, spoiled: tuple[int, ...], fair: bool
    ) -> None:
        header = Header(voters=voters, observers=(9, 4) if 4 not in voters else (9,), kraft_version=kraft_version)
        faults = tuple(TimedStep(1000 * index, disk.rot(node)) for index, node in enumerate(spoiled))
        assert is_fair(Plan(header=header, faults=faults)) is fair


def spoiled_nodes(plan: Plan) -> set[int]:
    return {fault.step.values["node"] for fault in plan.faults if fault.step.kind in (disk.blank_disk, disk.rot)}


class TestPlan:
    def test_a_time_is_said_once_for_all_that_happens_then(self) -> None:
        faults = (
            TimedStep(0, process.pause((1,))),
            TimedStep(1_500_000, process.kill((2,))),
            TimedStep(1_500_000, process.start((2,))),
        )
        plan = Plan(header=Header(seed=9), clients=1, clients_every_us=50_000, duration_us=2_000_000, faults=faults)
        assert plan.script("two lines\nof why").text == (
            "# two lines\n# of why\nseed 9\nvoters 1 2 3\n\n"
            "clients 1 every 50ms\npause 1\nat 1500ms\nkill 2\nstart 2\nat 2s\nrecover\n"
        )

    def test_without_clients_none_are_mentioned(self) -> None:
        assert [step.verb for step in Plan(header=Header(), clients=0).steps()] == ["at", "recover"]


class TestOptions:
    @pytest.mark.parametrize(
        ("text", "profiles"),
        [("all", PROFILES), ("none", ()), ("disk", ("disk",)), ("network, time", ("network", "time"))],
    )
    def test_profiles(self, text: str, profiles: tuple[str, ...]) -> None:
        assert parse_profiles(text) == profiles

    @pytest.mark.parametrize("text", ["", "disks", "all,disk", "network,,disk"])
    def test_an_unknown_profile_is_named(self, text: str) -> None:
        with pytest.raises(ConfigError, match=r"faults: '.*'; expected all, none, or some of network, disk, process"):
            parse_profiles(text)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"voters": 0}, "nodes: 0; expected 1 to 9"),
            ({"voters": 10}, "nodes: 10; expected 1 to 9"),
            ({"voters": 2, "witness": True}, "nodes: 2; expected 3 to 9 with a witness"),
            ({"clique": True, "witness": True}, "witness: excluded by a clique"),
            ({"observers": -1}, "observers: -1; expected 0 to 9"),
            ({"duration_us": 0}, "time: 0s; expected more"),
        ],
    )
    def test_what_no_cluster_can_be(self, options: dict[str, int], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            PlanOptions(**options)  # type: ignore[arg-type]


def test_a_witness_is_the_last_of_at_least_three_voters_that_do_not_change() -> None:
    for seed in range(20):
        plan = make_plan(seed, PlanOptions(witness=True))
        assert len(plan.header.voters) >= 3
        assert plan.header.witnesses == plan.header.voters[-1:]
        assert plan.is_fair_by_itself
