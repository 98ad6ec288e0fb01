"""The nemesis: a plan, made from a seed, of what faults happen when.

Each seed has a character of its own: a choice of kinds of fault, how often each of them happens, and how dense they
are.  If every run had all kinds, they would hide what only a few of them cause.  A node that is restarted every second
never shows what happens in a long life.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import attrs

from kraft_trio.config import parse_config
from kraft_trio.errors import ConfigError
from kraft_trio.simulation.faults import disk as disk_faults
from kraft_trio.simulation.faults import membership as membership_faults
from kraft_trio.simulation.faults import network as network_faults
from kraft_trio.simulation.faults import process as process_faults
from kraft_trio.simulation.faults import snapshots as snapshot_faults
from kraft_trio.simulation.faults.disk import spoiled_by
from kraft_trio.simulation.faults.membership import upgrade
from kraft_trio.simulation.faults.plan import (
    MILLISECOND_US,
    MOST_DRIFT_PPM,
    REGISTERED_KINDS,
    SECOND_US,
    FaultKind,
    Plan,
    TimedStep,
    Timeline,
)
from kraft_trio.simulation.faults.snapshots import PROFILE as SNAPSHOTS
from kraft_trio.simulation.faults.snapshots import snapshot_settings
from kraft_trio.simulation.script.header import ANY_NODE, Header
from kraft_trio.simulation.script.recovery.links import CLIQUE_TIMEOUTS, broken_links
from kraft_trio.simulation.script.step import Step
from kraft_trio.simulation.script.steps import clock, runs

T = TypeVar("T")

FAULT_MODULES: Final = (process_faults, disk_faults, network_faults, membership_faults, snapshot_faults)
"""Imported here so that each registers its kinds of fault."""

FAULT_KINDS: Final[Mapping[str, FaultKind]] = REGISTERED_KINDS
"""Every kind of fault by its name."""

MEMBERSHIP: Final = "membership"

PROCESS: Final = "process"

TIME: Final = "time"

DISK: Final = "disk"

NETWORK: Final = "network"

PROFILES: Final = (NETWORK, DISK, PROCESS, TIME, "versions", MEMBERSHIP, SNAPSHOTS)
"""The groups of faults; on the command line `all` selects all of them and `none` selects no group."""

_LEASE_KEY: Final = "kraft.read.lease.max.clock.drift.ppm"

_VOTERS: Final = ((3, 12), (5, 6), (1, 2), (2, 1), (4, 1))
"""Numbers of voters with their weights."""

_CHANGING: Final = 0.6
"""The share of the runs in which the voters change, if membership faults are selected."""

_SNAPSHOTTING: Final = 0.6
"""The share of the runs in which nodes take snapshots, if snapshot faults are selected."""

_LEASING: Final = 0.3
"""The share of the runs in which leaders have read leases."""

_LEASING_WITH_QUERIES: Final = 0.5
"""The same of the runs in which clients query an application's state machine.  Then all clocks drift, too."""

_WEIGHTS: Final = {MEMBERSHIP: 3.0}
"""Weights of groups that happen more often than others.  If voters change at all, they change often."""

LEAST_WITH_WITNESS: Final = 3

_MOST_NODES: Final = 6
"""The most nodes of a random cluster whose voters change."""

_LOADS: Final = ((1, 6), (3, 3), (12, 1))
"""How many operations all clients together begin per second, on average, with the weights.  A leader that is cut off
has uncommitted records only under load, but load costs real time."""

_LOADS_UNDER_LEASES: Final = ((12, 1), (30, 1))
"""The same if clients query under leases, which end between reads that are rare."""


@attrs.frozen(kw_only=True)
class PlanOptions:
    """What the seed does not decide.  Raises ConfigError if no cluster can be like that."""

    voters: int | None = attrs.field(default=None)
    """None: the seed decides."""
    observers: int | None = attrs.field(default=None)
    duration_us: int = attrs.field(default=60 * SECOND_US)
    """How long faults happen, in virtual microseconds.  The recovery takes additional time."""
    profiles: tuple[str, ...] = attrs.field(default=PROFILES)
    clique: bool = attrs.field(default=False)
    """Whether links break for good around a majority of the voters, as the only faults."""
    witness: bool = attrs.field(default=False)
    """Whether the voter with the highest id is a witness.  Then there are at least three, and they do not change."""
    state_machine: str | None = attrs.field(default=None)
    """`module:factory` of an application's state machine; None for the simulator's own."""
    serde: str | None = attrs.field(default=None)
    """`module:name` of the serde of its commands."""

    def __attrs_post_init__(self) -> None:
        if self.voters is not None and not 1 <= self.voters <= 9:
            raise ConfigError(f"nodes: {self.voters}; expected 1 to 9")
        if self.observers is not None and not 0 <= self.observers <= 9:
            raise ConfigError(f"observers: {self.observers}; expected 0 to 9")
        if self.duration_us <= 0:
            raise ConfigError("time: 0s; expected more")
        if self.clique:
            self._check_clique()
        if self.witness and self.clique:
            raise ConfigError("witness: excluded by a clique, which may need it as the leader")
        if self.witness and self.voters is not None and self.voters < LEAST_WITH_WITNESS:
            raise ConfigError(f"nodes: {self.voters}; expected {LEAST_WITH_WITNESS} to 9 with a witness")
        if self.serde is not None and self.state_machine is None:
            raise ConfigError("serde: given without a state machine")
        for profile in self.profiles:
            if profile not in PROFILES:
                raise ConfigError(f"faults: {profile!r}; expected all, none, or some of {', '.join(PROFILES)}")

    def _check_clique(self) -> None:
        if self.voters is not None and not 3 <= self.voters <= 5:
            raise ConfigError(f"nodes: {self.voters}; expected 3 to 5 with a clique")
        defaults = attrs.fields(PlanOptions)
        for name, option in (("observers", "observers"), ("duration_us", "time"), ("profiles", "faults")):
            if getattr(self, name) != getattr(defaults, name).default:
                raise ConfigError(f"{option}: excluded by a clique, which is all that fails")


def parse_profiles(text: str) -> tuple[str, ...]:
    """Parse `all`, `none`, or a list separated by commas.  Raises ConfigError, which names the unknown part."""
    if text == "all":
        return PROFILES
    if text == "none":
        return ()
    names = tuple(part.strip() for part in text.split(","))
    return PlanOptions(profiles=names).profiles


def make_plan(seed: int, options: PlanOptions) -> Plan:
    """The plan of that seed.  The same options give the same plan in every process."""
    plan = _make_plan(seed, options)
    header = attrs.evolve(plan.header, state_machine=options.state_machine, serde=options.serde)
    return attrs.evolve(plan, header=header)


def _make_plan(seed: int, options: PlanOptions) -> Plan:
    source = random.Random(f"{seed}/plan")
    if options.clique:
        settings = _settings(source)
        return clique_plan(seed, options.voters, settings, _longest_timeout_us(settings))
    membership = random.Random(f"{seed}/membership")
    snapshots = random.Random(f"{seed}/snapshots")
    changes_voters = _changes_voters(membership, options)
    voters = _pick(source, _VOTERS)
    observers = source.choice((0, 0, 1, 2))
    if changes_voters:
        voters, observers = _changing_cluster(membership, voters, observers)
    if options.witness:
        voters = max(voters, LEAST_WITH_WITNESS)
    voters = voters if options.voters is None else options.voters
    observers = observers if options.observers is None else options.observers
    clients = source.randrange(1, 5)
    settings = _settings(source)
    kraft_version = 0 if source.random() < 0.25 else 1
    if changes_voters and kraft_version == 1 and membership.random() < 0.25:
        settings["controller.quorum.auto.join.enable"] = "true"
    if changes_voters and membership.random() < 0.2:
        settings["kraft.voter.gossip.enable"] = "false"
    operations_per_s = _pick(source, _LOADS)
    leases = random.Random(f"{seed}/leases")
    has_queries = options.state_machine is not None
    if leases.random() < (_LEASING_WITH_QUERIES if has_queries else _LEASING):
        settings[_LEASE_KEY] = str(MOST_DRIFT_PPM)
        if has_queries:
            operations_per_s = _pick(leases, _LOADS_UNDER_LEASES)
    if takes_snapshots := _takes_snapshots(snapshots, options):
        settings |= snapshot_settings(snapshots, operations_per_s)
    header = Header(
        seed=seed,
        voters=tuple(range(1, voters + 1)),
        observers=tuple(range(voters + 1, voters + observers + 1)),
        witnesses=(voters,) if options.witness else (),
        kraft_version=kraft_version,
        settings=tuple(sorted((settings | _preallocation(seed)).items())),
    )
    return Plan(
        header=header,
        clients=clients,
        clients_every_us=clients * SECOND_US // operations_per_s,
        duration_us=options.duration_us,
        faults=_faults(
            random.Random(f"{seed}/faults"), header, options, changes_voters=changes_voters, snapshots=takes_snapshots
        ),
        is_fair_by_itself=not changes_voters,
    )


def is_fair(plan: Plan) -> bool:
    """Whether a majority of the voters keeps its disks.  A plan that was cut down must still be fair."""
    if not plan.is_fair_by_itself:
        return True
    spoiled = {node for fault in plan.faults for node in spoiled_by(fault.step) if node in plan.header.voters}
    return len(spoiled) <= (len(plan.header.voters) - 1) // 2 and not (spoiled and plan.header.kraft_version == 0)


def _changes_voters(source: random.Random, options: PlanOptions) -> bool:
    if options.witness:
        # Without a full voter, nothing would ever be committed.
        return False
    return options.profiles == (MEMBERSHIP,) or (MEMBERSHIP in options.profiles and source.random() < _CHANGING)


def _takes_snapshots(source: random.Random, options: PlanOptions) -> bool:
    return options.profiles == (SNAPSHOTS,) or (SNAPSHOTS in options.profiles and source.random() < _SNAPSHOTTING)


def _changing_cluster(source: random.Random, voters: int, observers: int) -> tuple[int, int]:
    """Numbers of voters and observers at first; in some runs one voter, and at least one node that may join."""
    if source.random() < 0.3:
        return 1, source.randint(1, _MOST_NODES - 2)
    return voters, max(observers, source.randint(int(voters == 1), max(1, _MOST_NODES - voters)))


def _settings(source: random.Random) -> dict[str, str]:
    settings: dict[str, str] = {}
    if source.random() < 0.4:
        settings["metadata.log.segment.bytes"] = str(source.choice((1024, 2048, 8192)))
    if source.random() < 0.2:
        settings["controller.quorum.fetch.max.bytes"] = str(source.choice((1, 500, 4096)))
    if source.random() < 0.2:
        settings["controller.quorum.append.linger.ms"] = str(source.choice((1, 25)))
    if source.random() < 0.2:
        timeout_ms = source.choice((200, 500, 3000))
        settings["controller.quorum.election.timeout.ms"] = str(timeout_ms)
        settings["controller.quorum.fetch.timeout.ms"] = str(2 * timeout_ms)
    return settings


def _preallocation(seed: int) -> dict[str, str]:
    """Drawn apart, so that it changes nothing else of a seed's plan."""
    step = random.Random(f"{seed}/preallocation").choice((0, 600, 4096))
    return {"kraft.log.preallocate.bytes": str(step)}


def _longest_timeout_us(settings: Mapping[str, str]) -> int:
    """The longest time that a node waits for another.  An election timeout is up to twice the configured one."""
    config = parse_config({**ANY_NODE, **settings}).config
    return max(2 * config.election_timeout_ms, config.fetch_timeout_ms, config.request_timeout_ms) * 1000


def _faults(
    source: random.Random, header: Header, options: PlanOptions, *, changes_voters: bool, snapshots: bool
) -> tuple[TimedStep, ...]:
    timeline = Timeline(source, header, options.duration_us, changes_voters)
    has = {MEMBERSHIP: changes_voters, SNAPSHOTS: snapshots}
    profiles = tuple(profile for profile in options.profiles if has.get(profile, True))
    kinds = _character(source, len(header.nodes), profiles)
    if not kinds:
        return ()
    if changes_voters and header.kraft_version == 0:
        # Voters can change only after the upgrade.
        upgrade(timeline, source.randrange(options.duration_us // 2000) * 1000)
    mean_gap_us = timeline.span_us(SECOND_US // 4, 8 * SECOND_US)
    now_us = 0.0
    while (now_us := now_us + source.expovariate(1 / mean_gap_us)) < options.duration_us:
        _pick(source, kinds).make(timeline, round(now_us / 1000) * 1000)
    if PROCESS in profiles:
        process_faults.transfers(timeline, random.Random(f"{header.seed}/transfers"))
        process_faults.resignations(timeline, random.Random(f"{header.seed}/resignations"))
        process_faults.strikes_at_actions(timeline, random.Random(f"{header.seed}/strikes"))
    if DISK in profiles:
        disk_faults.old_copies(timeline, random.Random(f"{header.seed}/old-copies"))
        disk_faults.blank_majority(timeline, random.Random(f"{header.seed}/blank-majority"))
    if NETWORK in profiles:
        network_faults.dead_addresses(timeline, random.Random(f"{header.seed}/dead-addresses"))
    if TIME in profiles and options.state_machine is not None and _LEASE_KEY in dict(header.settings):
        process_faults.drifting_clocks(timeline, random.Random(f"{header.seed}/drifting-clocks"))
    return tuple(sorted(timeline.steps, key=lambda fault: fault.at_us))


def _character(source: random.Random, nodes: int, profiles: tuple[str, ...]) -> tuple[tuple[FaultKind, float], ...]:
    """The kinds of fault of one run, each with its weight."""
    possible = [kind for kind in FAULT_KINDS.values() if kind.profile in profiles and kind.min_nodes <= nodes]
    share = source.uniform(0.2, 1.0)
    chosen = [kind for kind in possible if source.random() < share] or possible
    for profile in (MEMBERSHIP, SNAPSHOTS):
        if profile in profiles and not any(kind.profile == profile for kind in chosen):
            chosen += source.choices([kind for kind in possible if kind.profile == profile], k=2)
    return tuple((kind, _WEIGHTS.get(kind.profile, 1.0) * math.exp(source.uniform(-2.0, 2.0))) for kind in chosen)


def _pick(source: random.Random, weighted: Sequence[tuple[T, float]]) -> T:
    values, weights = zip(*weighted, strict=True)
    picked: T = source.choices(values, weights)[0]
    return picked


VOTERS: Final = (3, 3, 4, 5, 5, 5)
"""The numbers of voters in runs with a clique."""

BREAKS_WITHIN_US: Final = 4 * SECOND_US
"""The latest time at which the last link breaks.  Some runs begin with broken links, in others a leader is elected
first."""

_ROUNDS: Final = 2
"""How often a commit is demanded: after the last link has broken, and once the quorum has had time to get stuck."""


def clique_plan(seed: int, voters: int | None, settings: dict[str, str], longest_timeout_us: int) -> Plan:
    """A run in which clients write all the time.  If `voters` is None, the seed decides their number."""
    source = random.Random(f"{seed}/clique")
    count = source.choice(VOTERS) if voters is None else voters
    nodes = tuple(range(1, count + 1))
    clique = source.sample(nodes, source.choice((count // 2 + 1, max(count // 2 + 1, count - 1))))
    others = [node for node in nodes if node not in clique]
    begins_us = source.choice((0, source.randrange(BREAKS_WITHIN_US)))
    spread_us = source.choice((1, BREAKS_WITHIN_US - begins_us))
    steps = [
        TimedStep((begins_us + source.randrange(spread_us)) // MILLISECOND_US * MILLISECOND_US, step)
        for step in broken_links(source, clique, others)
    ]
    demand: tuple[Step, ...] = (runs.demand_commit(within_us=CLIQUE_TIMEOUTS * longest_timeout_us),)
    return Plan(
        header=Header(
            seed=seed,
            voters=nodes,
            kraft_version=source.choice((0, 1, 1, 1)),
            settings=tuple(sorted(settings.items())),
        ),
        clients=2,
        duration_us=BREAKS_WITHIN_US,
        faults=tuple(sorted(steps, key=lambda fault: fault.at_us)),
        ending=demand + (clock.wait(4 * longest_timeout_us), *demand) * (_ROUNDS - 1),
    )
