"""Steps of random runs other than faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import trio

from kraft_trio.simulation.clients.workload import Workload
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.facts.actions import ACTIONS, ActionCoverage
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.script.parts import Duration, Number, choice
from kraft_trio.simulation.script.recovery import demands
from kraft_trio.simulation.script.recovery.recover import recover as recover_from_faults
from kraft_trio.simulation.script.step import Step, step
from kraft_trio.simulation.script.steps import election
from kraft_trio.simulation.script.steps.disk import demand_directory_ids, insert_blank_disk
from kraft_trio.simulation.script.steps.network import isolate, mute
from kraft_trio.simulation.script.steps.process import crash, kill, pause
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT, FetchSnapshotResponse

CHANGED_WITHIN_S: Final = 1.0
"""How long a step waits for a leader to append a set of voters."""

FETCHED_WITHIN_S: Final = 3.0
"""How long a step waits for a piece of a snapshot."""

ACTED_WITHIN_S: Final = 3.0
"""How long a step waits for an action."""


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


async def node_acts(cluster: Cluster, action: str) -> int | None:
    """Wait for a node to take that action.  Returns its id at that moment, or None after ACTED_WITHIN_S."""
    actors: list[int] = []
    has_acted = trio.Event()

    def look(node_id: int, taken: str) -> None:
        if taken == action:
            actors.append(node_id)
            has_acted.set()

    actions = ActionCoverage(cluster.facts, on_taken=look)
    cluster.trace.listeners.append(actions.heard)
    try:
        with trio.move_on_after(ACTED_WITHIN_S):
            await has_acted.wait()
    finally:
        cluster.trace.listeners.remove(actions.heard)
    return actors[0] if actors else None


def _is_not_the_last(response: FetchSnapshotResponse) -> bool:
    return 0 < response.position + len(response.unaligned_records) < response.size


USUAL_PAUSE_US: Final = 1_000_000

RETRY_BACKOFFS_MS: Final = (250, 1000, 2000)
"""The delays of clients in random runs before they try again.  Most are longer than the library's own: in long times
without a leader, looking for one would be most of what a run does."""

BLOWS: Final[Mapping[str, Callable[[int], Step]]] = {
    "kill": lambda node: kill((node,)),
    "crash": lambda node: crash((node,), "reordered"),
    "pause": lambda node: pause((node,)),
    "isolate": isolate,
    "stall": lambda node: isolate(node, silent=True),
    "mute": mute,
}
"""What a strike does to a node."""
Blow = Annotated[str, choice(*BLOWS)]

ANSWERS: Final[Mapping[str, Callable[[int], Step]]] = {
    **BLOWS,
    "resign": lambda _node: election.resign(),
    "campaign": election.campaign,
}
"""What can happen to a node that has just taken an action: a blow, that the leader resigns, that it campaigns."""
Answer = Annotated[str, choice(*ANSWERS)]

STRUCK: Final = tuple(action for action in ACTIONS if action not in ("Restart", "SwapDisk", "EndQuorumEpoch"))
"""The actions that a strike can wait for: those that a node's events show by themselves."""
Action = Annotated[str, choice(*STRUCK)]


@step
async def at(cluster: Cluster, time_us: Duration) -> None:
    """Waits until this much time after the start of the run."""
    await trio.sleep(max(0.0, time_us / 1e6 - cluster.now_s))


@step
async def clients(cluster: Cluster, count: Number, *, every_us: Duration = USUAL_PAUSE_US) -> None:
    """Starts clients, over the network and inside nodes.

    `every` is the average time from the end of one operation of a client to the beginning of its next one.
    """
    if cluster.workload is None and count:
        cluster.workload = Workload(
            cluster, clients=count, operations_per_s=1e6 / every_us, retry_backoffs_ms=RETRY_BACKOFFS_MS
        )
        cluster.workload.start()


@clients.check
def _pauses(count: int, *, every_us: int = USUAL_PAUSE_US) -> None:
    if not every_us:
        raise ValueError("every: 0s; expected more")


@step
async def fair(cluster: Cluster) -> None:
    """From now on, spares what the quorum could never do without again.

    Steps that would take one of them do nothing then: `blank-disk`, `rot`, `add-voter`, `remove-voter`, `move`.  New
    clients find nodes that move.
    """
    cluster.survivability.is_guarded = True
    cluster.has_stable_names = True


@step
async def blank_majority(cluster: Cluster) -> None:
    """Gives most voters blank disks with new directory ids, so that no voter set in force keeps a majority.

    Nobody may lead any more, whatever else happens.  `recover` then demands that every survivor and `explain` say so.
    """
    demand_directory_ids(cluster, "blank-majority", "the disks apart")
    for node in cluster.survivability.surplus(cluster.random(f"blank majority at {cluster.now_s:.6f} s")):
        await insert_blank_disk(cluster.machines[node])
    cluster.survivability.may_be_lost = True


@step
async def strike_leader(cluster: Cluster, blow: Blow, *, mid_change: bool = False, mid_download: bool = False) -> None:
    """Harms the leader of the highest epoch, if there is one.

    `mid-change` waits up to a second for a leader to append a voter set, and strikes at that moment, or not at all.
    `mid-download` waits up to three seconds for a node to receive a piece of a snapshot. `start` and `resume` undo a
    kill, a crash and a pause; `heal` ends a cut.
    """
    if mid_change and not await leader_appends_voters(cluster):
        return
    if mid_download and await piece_arrives(cluster) is None:
        return
    leader = cluster.leader()
    if leader is not None:
        await BLOWS[blow](leader.key.id).take(cluster)


@step
async def strike_fetcher(cluster: Cluster, blow: Blow) -> None:
    """Harms the next node that receives a piece of a snapshot, except the last piece."""
    fetcher = await piece_arrives(cluster)
    if fetcher is not None:
        await BLOWS[blow](fetcher).take(cluster)


@step
async def strike_at(cluster: Cluster, action: Action, answer: Answer) -> None:
    """Harms the next node that takes an action of the specification, within three seconds.

    `resign` has the leader resign instead, and `campaign` has the node campaign.
    """
    node = await node_acts(cluster, action)
    if node is not None:
        await ANSWERS[answer](node).take(cluster)


@step
async def demand_commit(cluster: Cluster, *, within_us: Duration) -> None:
    """Demands that a new append of `clients` is acknowledged in time.

    Everything broken stays broken.  A demand that is not met is a violation.
    """
    await demands.demand_commit(cluster, within_us / 1e6)


@step
async def recover(cluster: Cluster) -> None:
    """Ends every fault, first for a majority; demands progress, then equal logs."""
    await recover_from_faults(cluster)
