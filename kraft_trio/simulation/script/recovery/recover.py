"""The course of a recovery."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.script.recovery.changes import demand_end_of_reassignment, demand_voter_change
from kraft_trio.simulation.script.recovery.demands import ELECTION_TIMEOUTS, PROGRESS, Demands, demand_commit
from kraft_trio.simulation.script.recovery.leaders import keeps_leading, lasting_leader, let_minority_act
from kraft_trio.simulation.script.recovery.links import CLIQUE_TIMEOUTS, broken_links
from kraft_trio.simulation.script.recovery.loss import demand_that_loss_is_told
from kraft_trio.simulation.script.step import NotAsExpected

BROKEN_LINKS: Final = 0.3
"""The share of the runs in which links around the majority stay broken at first, and only commits are demanded."""

STABLE_TIMEOUTS: Final = 5
"""The leader must then stay for this many of the longest timeouts."""

MOST_SUCCESSORS: Final = 10
"""The most leaders that may be removed or hand over after the faults have stopped, by requests from before."""


async def recover(cluster: Cluster) -> None:
    """End the faults and make the demands.  The first unmet one is a violation.  The clients are stopped on the way."""
    demands = Demands(cluster)
    cluster.administrator.stop()
    if cluster.survivability.needs_gossip():
        # A build that is too old for pre-votes does not gossip either.
        for machine in cluster.machines.values():
            cluster.network.uncap_versions(machine.host)
    if cluster.has_moves or cluster.random("announced addresses").random() < 0.5:
        cluster.misadvertise(cluster.machines, end=True)
    if cluster.survivability.is_lost():
        await demand_that_loss_is_told(demands)
        return
    majority = _pick_majority(demands)
    if demands.random.random() < BROKEN_LINKS:
        await _commit_over_broken_links(demands, majority)
    await demands.end_faults(majority)
    await demand_stable_leader(demands, majority)
    # Voters find a leader that announces a dead address, but clients have nothing else to go by.
    cluster.misadvertise(cluster.machines, end=True)
    await demands.end_faults(demands.everyone)
    if cluster.workload is not None:
        await cluster.workload.stop()
        await cluster.workload.demand_progress()
    await demands.be_alike()
    if cluster.survivability.is_guarded:
        await demand_end_of_reassignment(demands)
        await demand_voter_change(demands)
        await demands.be_alike()
    cluster.checker.finished()
    cluster.compare_machines()


async def demand_stable_leader(demands: Demands, majority: list[int]) -> None:
    """Demand a leader of the majority that stays, apart from those that are lawfully replaced."""
    timeout_s = demands.longest_timeout_s
    for _ in range(MOST_SUCCESSORS):
        leads = partial(lasting_leader, demands, majority)
        leader = await demands.met(leads, ELECTION_TIMEOUTS * timeout_s, majority)
        majority = await let_minority_act(demands, majority, leader)
        if await keeps_leading(demands, leader, STABLE_TIMEOUTS * timeout_s):
            return
    lost = f"{MOST_SUCCESSORS} leaders, one after the other, were removed or handed over"
    await demands.violated(PROGRESS, ("no more changes have been asked for", lost), majority)


def _pick_majority(demands: Demands) -> list[int]:
    """Nodes that have kept their disks, and are a majority of every voter set that may be in force."""
    cluster, source = demands.cluster, demands.random
    survivability = cluster.survivability
    members = [node for node in survivability.members() if not cluster.machines[node].has_bad_disk]
    order = source.sample(members, len(members))
    least = next((size for size in range(1, len(order) + 1) if survivability.has_majority(order[:size])), None)
    if least is None:
        raise NotAsExpected(
            f"recover: the nodes {', '.join(map(str, members)) or 'none'} that have kept their disks are no "
            f"majority of every set of voters that may be in force: {'; '.join(map(str, survivability.possible()))}"
        )
    chosen = order[: source.randint(least, len(order))]
    # Nodes that cannot become voters are included at random; they must disturb nobody.
    others = [node for node in demands.everyone if node not in members]
    return sorted([*chosen, *(node for node in others if source.random() < 0.3)])


async def _commit_over_broken_links(demands: Demands, majority: Collection[int]) -> None:
    """Demand a commit while every link around the majority is broken in some way."""
    cluster = demands.cluster
    others = [node for node in cluster.machines if node not in majority]
    if cluster.workload is None or not others or cluster.network.has_caps:
        return
    cluster.network.end_faults()
    cluster.misadvertise(cluster.machines, end=True)
    for step in broken_links(demands.random, majority, others):
        await step.take(cluster)
    await demands.end_faults_of(majority)
    await demand_commit(cluster, CLIQUE_TIMEOUTS * demands.longest_timeout_s)
