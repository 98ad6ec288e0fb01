"""Steps of random runs other than faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import trio

from kraft_trio.simulation.clients.workload import Workload
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.script.parts import DURATION, NUMBER, choice
from kraft_trio.simulation.script.recovery import demand_commit, recover
from kraft_trio.simulation.script.steps import NotAsExpected, Step, flag, part, register
from kraft_trio.simulation.script.steps_network import Isolate, Mute
from kraft_trio.simulation.script.steps_process import Crash, Kill, Pause
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT, FetchSnapshotResponse

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.tracing.events import TraceEvent

CHANGED_WITHIN_S: Final = 1.0
"""How long a step waits for a leader to append a set of voters."""

FETCHED_WITHIN_S: Final = 3.0
"""How long a step waits for a piece of a snapshot."""


async def leader_appends_voters(cluster: Cluster) -> bool:
    """Wait for a leader to append a voter set.  Returns at that moment, or False after CHANGED_WITHIN_S."""
    has_appended = trio.Event()

    def look(event: TraceEvent) -> None:
        if event.kind == "voters" and event.role == "Leader":
            has_appended.set()

    cluster.trace.listeners.append(look)
    try:
        with trio.move_on_after(CHANGED_WITHIN_S):
            await has_appended.wait()
    finally:
        cluster.trace.listeners.remove(look)
    return has_appended.is_set()


async def piece_arrives(cluster: Cluster) -> int | None:
    """Wait for a node to receive a piece of a snapshot, except the last one.  Returns its id, or None after
    FETCHED_WITHIN_S."""
    fetchers: list[int] = []
    has_come = trio.Event()

    def look(message: Message) -> None:
        if message.delivered and message.api_key == FETCH_SNAPSHOT.key and not message.is_request:
            response = message.value
            fetcher = cluster.facts.replica_at(message.target)
            if fetcher is not None and isinstance(response, FetchSnapshotResponse) and _is_not_the_last(response):
                fetchers.append(fetcher.key.id)
                has_come.set()

    cluster.message_listeners.append(look)
    try:
        with trio.move_on_after(FETCHED_WITHIN_S):
            await has_come.wait()
    finally:
        cluster.message_listeners.remove(look)
    return fetchers[0] if fetchers else None


def _is_not_the_last(response: FetchSnapshotResponse) -> bool:
    return 0 < response.position + len(response.unaligned_records) < response.size


USUAL_PAUSE_US: Final = 1_000_000

RETRY_BACKOFFS_MS: Final = (250, 1000, 2000)
"""The delays of clients in random runs before they try again.  Most are longer than the library's own: in long times
without a leader, looking for one would be most of what a run does."""

BLOWS: Final[Mapping[str, Callable[[int], Step]]] = {
    "kill": lambda node: Kill((node,)),
    "crash": lambda node: Crash((node,), "reordered"),
    "pause": lambda node: Pause((node,)),
    "isolate": Isolate,
    "stall": lambda node: Isolate(node, silent=True),
    "mute": Mute,
}
"""What a strike does to a node."""
BLOW: Final = choice(*BLOWS)


@register
@attrs.frozen
class At(Step):
    """Waits until this much time after the start of the run."""

    verb: ClassVar[str] = "at"
    keeps_time: ClassVar[bool] = True
    time_us: int = part(DURATION)

    async def take(self, cluster: Cluster) -> None:
        await trio.sleep(max(0.0, self.time_us / 1e6 - cluster.now_s))


@register
@attrs.frozen
class Clients(Step):
    """Starts clients, over the network and inside nodes."""

    verb: ClassVar[str] = "clients"
    count: int = part(NUMBER)
    every_us: int = part(DURATION, after="every", default=USUAL_PAUSE_US)
    """The average time from the end of one operation of a client to the beginning of its next one."""

    def __attrs_post_init__(self) -> None:
        if not self.every_us:
            raise ValueError("every: 0s; expected more")

    async def take(self, cluster: Cluster) -> None:
        if cluster.workload is None and self.count:
            cluster.workload = Workload(
                cluster, clients=self.count, operations_per_s=1e6 / self.every_us, retry_backoffs_ms=RETRY_BACKOFFS_MS
            )
            cluster.workload.start()


@register
@attrs.frozen
class Fair(Step):
    """From now on, spares what the quorum could never do without again.

    Steps that would take one of them do nothing then: `blank-disk`, `rot`, `add-voter`, `remove-voter`, `move`.  New
    clients find nodes that move.
    """

    verb: ClassVar[str] = "fair"

    async def take(self, cluster: Cluster) -> None:
        cluster.survivability.is_guarded = True
        cluster.has_stable_names = True


@register
@attrs.frozen
class BlankMajority(Step):
    """Gives most voters blank disks with new directory ids, so that no voter set in force keeps a majority.

    Nobody may lead any more, whatever else happens.  `recover` then demands that every survivor and `explain` say so.
    """

    verb: ClassVar[str] = "blank-majority"

    async def take(self, cluster: Cluster) -> None:
        if cluster.setup.kraft_version == 0:
            raise NotAsExpected(
                "blank-majority: kraft-version 0 has no directory ids to tell the disks apart; expected 1"
            )
        for node in cluster.survivability.surplus(cluster.random(f"blank majority at {cluster.now_s:.6f} s")):
            machine = cluster.machines[node]
            machine.device.is_being_replaced = True
            machine.crash("all")
            await machine.wait_until_ended()
            machine.replace_disk()
        cluster.survivability.may_be_lost = True


@register
@attrs.frozen
class StrikeLeader(Step):
    """Harms the leader of the highest epoch, if there is one.

    `mid-change` waits up to a second for a leader to append a voter set, and strikes at that moment, or not at all.
    `mid-download` waits up to three seconds for a node to receive a piece of a snapshot. `start` and `resume` undo a
    kill, a crash and a pause; `heal` ends a cut.
    """

    verb: ClassVar[str] = "strike-leader"
    blow: str = part(BLOW)
    mid_change: bool = flag("mid-change")
    mid_download: bool = flag("mid-download")

    async def take(self, cluster: Cluster) -> None:
        if self.mid_change and not await leader_appends_voters(cluster):
            return
        if self.mid_download and await piece_arrives(cluster) is None:
            return
        leader = cluster.leader()
        if leader is not None:
            await BLOWS[self.blow](leader.key.id).take(cluster)


@register
@attrs.frozen
class StrikeFetcher(Step):
    """Harms the next node that receives a piece of a snapshot, except the last piece."""

    verb: ClassVar[str] = "strike-fetcher"
    blow: str = part(BLOW)

    async def take(self, cluster: Cluster) -> None:
        fetcher = await piece_arrives(cluster)
        if fetcher is not None:
            await BLOWS[self.blow](fetcher).take(cluster)


@register
@attrs.frozen
class DemandCommit(Step):
    """Demands that a new append of `clients` is acknowledged in time.

    Everything broken stays broken.  A demand that is not met is a violation.
    """

    verb: ClassVar[str] = "demand-commit"
    within_us: int = part(DURATION, after="within")

    async def take(self, cluster: Cluster) -> None:
        await demand_commit(cluster, self.within_us / 1e6)


@register
@attrs.frozen
class Recover(Step):
    """Ends every fault, first for a majority; demands progress, then equal logs."""

    verb: ClassVar[str] = "recover"

    async def take(self, cluster: Cluster) -> None:
        await recover(cluster)
