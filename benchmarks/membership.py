"""The effect of voter changes on concurrent appends."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import attrs
import trio

from benchmarks.children import BenchmarkError, poll_until
from benchmarks.context import Context
from benchmarks.kraft_cluster import NO_OVERRIDES, KraftCluster
from benchmarks.report import Aim, Section
from harness.ports import free_ports
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.log_client import LogClient
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.errors import KraftError
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey

ELECTION_MS = 1000
"""The default of controller.quorum.election.timeout.ms: the leader's removal may cost one election."""
GAP_MS = 100
"""Any other change."""
AFTER_SECONDS = 1.0
"""How long after a change its effects still count."""
SETTLE_SECONDS = 60.0
CLOSE_BEHIND = 10
"""Records by which a voter may be behind that keeps pace with the load."""

NOTHING = "nothing (for comparison)"
ADD = "add a voter"
REMOVE = "remove a follower"
REMOVE_LEADER = "remove the leader of three"
REMOVE_LEADER_OF_TWO = "remove the leader of two"
UPDATE = "a follower restarts with a second listener"
UPGRADE = "kraft.version 0 to 1"

LIMIT_MS = {REMOVE_LEADER: ELECTION_MS, REMOVE_LEADER_OF_TWO: ELECTION_MS}


class Appends:
    """One client that appends 1 KiB records, one after the other, and remembers when each was acknowledged."""

    def __init__(self) -> None:
        self.times: list[float] = [time.perf_counter()]
        self.values: list[bytes] = []
        """Those acknowledged."""
        self.failures: list[str] = []
        self.last_offset = -1

    async def run(self, bootstrap: tuple[Endpoint, ...], stop: trio.Event) -> None:
        number = 0
        async with LogClient(bootstrap) as client:
            while not stop.is_set():
                value = f"{number}:".encode().ljust(1024, b"x")
                number += 1
                try:
                    [self.last_offset] = await client.produce([value])
                except KraftError as error:
                    self.failures.append(str(error))
                else:
                    self.times.append(time.perf_counter())
                    self.values.append(value)

    def longest_gap_ms(self, since: float, until: float) -> float:
        """The longest gap between acknowledgements that overlaps that time (`time.perf_counter`)."""
        return longest_gap(self.times, since, until) * 1000


def longest_gap(times: list[float], since: float, until: float) -> float:
    """The longest time between successive `times`, or after the last one, that overlaps [since, until]."""
    inside = [moment for moment in times if since < moment < until]
    before = max((moment for moment in times if moment <= since), default=since)
    after = min((moment for moment in times if moment >= until), default=until)
    moments = [before, *inside, after]
    return max(later - earlier for earlier, later in pairwise(moments))


@attrs.define
class Measured:
    """What each kind of change took, and the longest gap in commits, in milliseconds."""

    taken_ms: dict[str, list[float]] = attrs.field(factory=dict)
    gap_ms: dict[str, list[float]] = attrs.field(factory=dict)
    appended: int = 0
    failed: int = 0
    """Appends that were refused or given up, and acknowledged ones that are not there afterwards."""


async def measure(context: Context) -> Section:
    measured = Measured()
    with context.fresh_directory("membership") as directory:
        async with _loaded(context, directory / "dynamic", measured) as run:
            rounds = context.pick(10, 2)
            for number in range(rounds):
                await run.round()
                context.say(f"membership, round {number + 1} of {rounds}")
        for number in range(context.pick(5, 1)):
            async with _loaded(context, directory / f"static-{number}", measured, static_voters=True) as run:
                await run.upgrade()
            context.say(f"membership, upgrade {number + 1}")
    return section_of(measured)


def section_of(measured: Measured) -> Section:
    worst = {
        what: max(max(gaps) for kind, gaps in measured.gap_ms.items() if kind in kinds)
        for what, kinds in (
            ("election", LIMIT_MS),
            ("other", measured.gap_ms.keys() - LIMIT_MS.keys() - {NOTHING}),
        )
    }
    return Section(
        name="membership",
        title="Voter changes under load: the longest gap between two commits",
        method=(
            "Three nodes with default timeouts; a client appends 1 KiB records all the time, one after the other. The "
            "gap is the longest time between two of its acknowledgements, from the request for the change until "
            f"{AFTER_SECONDS:.0f} s after its answer; the change takes until that answer. At the end the whole log is "
            "read, and each acknowledged record must be there once."
        ),
        columns=("change", "times", "change ms, median", "gap ms, median", "gap ms, max"),
        rows=tuple(
            (
                what,
                f"{len(gaps)}",
                f"{statistics.median(measured.taken_ms[what]):.0f}",
                f"{statistics.median(gaps):.0f}",
                f"{max(gaps):.0f}",
            )
            for what, gaps in measured.gap_ms.items()
        ),
        aims=(
            Aim("no failed acknowledged write", f"{measured.failed} of {measured.appended}", measured.failed == 0),
            Aim(
                f"removal of the leader: at most one election timeout, {ELECTION_MS} ms, each time",
                f"max {worst['election']:.0f} ms",
                worst["election"] <= ELECTION_MS,
            ),
            Aim(
                f"any other change: at most {GAP_MS} ms, each time",
                f"max {worst['other']:.0f} ms",
                worst["other"] <= GAP_MS,
            ),
        ),
        data={"taken_ms": measured.taken_ms, "gap_ms": measured.gap_ms, "appended": measured.appended},
    )


@asynccontextmanager
async def _loaded(
    context: Context, directory: Path, measured: Measured, *, static_voters: bool = False
) -> AsyncIterator[_Run]:
    """A quorum that is written to as long as the block lasts; then what was acknowledged is checked and counted."""
    async with KraftCluster.started(directory, context.overrides, static_voters=static_voters) as cluster:
        bootstrap = tuple(cluster.endpoint(node) for node in cluster.node_ids)
        appends, stop = Appends(), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(appends.run, bootstrap, stop)
            yield _Run(cluster, AdminClient(bootstrap), appends, measured)
            stop.set()
        measured.appended += len(appends.values)
        measured.failed += len(appends.failures) + await _count_missing(bootstrap, appends)


async def _count_missing(bootstrap: tuple[Endpoint, ...], appends: Appends) -> int:
    """How many acknowledged records are not in the log exactly once."""
    async with LogClient(bootstrap) as client:
        found = [record.value async for record in client.read(0, until=appends.last_offset + 1)]
    times = dict.fromkeys(appends.values, 0)
    for value in found:
        if value in times:
            times[value] += 1
    return sum(count != 1 for count in times.values())


@attrs.frozen
class _Run:
    """Changes of one quorum under load."""

    cluster: KraftCluster
    admin: AdminClient
    appends: Appends
    measured: Measured

    async def round(self) -> None:
        """Every change that keeps kraft.version; ends with the voters with which it began."""
        everybody = set(self.cluster.node_ids)
        settled = await self._settled(everybody)
        await self._measure(NOTHING, trio.sleep, AFTER_SECONDS)

        follower = next(state.key for state in settled.voters if state.key.id != settled.leader_id)
        await self._remove(REMOVE, follower)
        leader = _leader_of(await self._settled(everybody - {follower.id}))
        await self._remove(REMOVE_LEADER_OF_TWO, leader)
        await self._settled(everybody - {follower.id, leader.id})
        await self._add(follower)
        await self._settled(everybody - {leader.id})
        await self._add(leader)

        leader = _leader_of(await self._settled(everybody))
        await self._remove(REMOVE_LEADER, leader)
        await self._settled(everybody - {leader.id})
        await self._add(leader)

        settled = await self._settled(everybody)
        follower = next(state.key for state in settled.voters if state.key.id != settled.leader_id)
        [port] = free_ports(1)
        second = Endpoints(
            [("CONTROLLER", self.cluster.endpoint(follower.id)), ("SECOND", Endpoint("127.0.0.1", port))]
        )
        await self._measure(UPDATE, self._restart, follower.id, second)
        await self._settled(everybody)
        await self._restart(follower.id, Endpoints({"CONTROLLER": self.cluster.endpoint(follower.id)}))

    async def upgrade(self) -> None:
        """kraft.version 0 to 1, once every voter has told the leader who it is."""
        await self._settled(set(self.cluster.node_ids))

        async def is_possible() -> bool | None:
            try:
                await self.admin.update_features({"kraft.version": 1}, validate_only=True)
            except KraftError:
                return None
            return True

        await poll_until("voters that can be upgraded", SETTLE_SECONDS, is_possible)
        await self._measure(UPGRADE, self._upgrade)
        await self._settled(set(self.cluster.node_ids))

    async def _measure(self, what: str, change: Callable[..., Awaitable[object]], *arguments: object) -> None:
        began = time.perf_counter()
        try:
            await change(*arguments)
        except KraftError as error:
            raise BenchmarkError(f"{what}: {error}") from error
        taken = time.perf_counter() - began
        await trio.sleep(AFTER_SECONDS)
        self.measured.taken_ms.setdefault(what, []).append(taken * 1000)
        gap = self.appends.longest_gap_ms(began, time.perf_counter())
        self.measured.gap_ms.setdefault(what, []).append(gap)

    async def _add(self, voter: ReplicaKey) -> None:
        listeners = Endpoints({"CONTROLLER": self.cluster.endpoint(voter.id)})
        await self._measure(ADD, self.admin.add_metadata_voter, voter, listeners)

    async def _remove(self, what: str, voter: ReplicaKey) -> None:
        await self._measure(what, self.admin.remove_metadata_voter, voter)

    async def _upgrade(self) -> None:
        await self.admin.update_features({"kraft.version": 1})

    async def _restart(self, node: int, endpoints: Endpoints) -> None:
        """Returns when the voters in the log have these endpoints for the node."""
        await self.cluster.stop(node)
        await self.cluster.start(node, _listeners(endpoints))

        async def is_known() -> bool | None:
            described = await self.admin.describe_metadata_quorum(1000)
            known = isinstance(described, QuorumDescription) and described.endpoints.get(node) == endpoints
            return True if known else None

        await poll_until(f"kraft node {node} with listeners {endpoints}", SETTLE_SECONDS, is_known)

    async def _settled(self, voters: set[int]) -> QuorumDescription:
        """Wait until those are the voters, committed, and every node keeps pace with the leader."""

        async def look() -> QuorumDescription | None:
            described = await self.admin.describe_metadata_quorum(1000)
            if not isinstance(described, QuorumDescription):
                return None
            lags = {state.key.id: described.lag(state) for state in (*described.voters, *described.observers)}
            keeps_pace = all(0 <= lags.get(node, -1) <= CLOSE_BEHIND for node in self.cluster.node_ids)
            return described if keeps_pace and {state.key.id for state in described.voters} == voters else None

        return await poll_until(f"kraft quorum of {sorted(voters)} in step", SETTLE_SECONDS, look)


def _leader_of(described: QuorumDescription) -> ReplicaKey:
    if described.leader is None:
        raise BenchmarkError(f"the leader, {described.leader_id}, is not among the replicas")
    return described.leader.key


def _listeners(endpoints: Endpoints) -> Mapping[str, str]:
    if len(endpoints) == 1:
        return NO_OVERRIDES
    return {
        "listeners": ",".join(f"{name}://{endpoint}" for name, endpoint in endpoints),
        "controller.listener.names": ",".join(name for name, _ in endpoints),
    }
