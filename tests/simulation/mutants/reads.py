"""Mutants of read barriers and leases: what shows that a leader still leads, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from kraft_trio.actors.replication import read_barriers
from kraft_trio.actors.replication.leader_replication import LeaderReplication
from kraft_trio.actors.replication.read_barriers import ReadBarriers
from kraft_trio.messages import FetchReceived, ReadIndexRequested
from kraft_trio.node_tree import NodeTree
from kraft_trio.protocol import read_lease
from kraft_trio.protocol.read_barrier import ReadIndex
from kraft_trio.protocol.read_lease import ReadLease
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.script.catalog import parse_step
from tests.support.drifting_lease import leader_cut_off, lease_setup

from .mutant import Change, mutant
from .runs import campaign, custom, storm


async def _late_fetch(cluster: Cluster) -> None:
    """A voter's Fetch is on its way to the old leader while the voter elects another one, and reads begin meanwhile."""
    await parse_step("elect 1").take(cluster)
    await parse_step('append "a"').take(cluster)
    cluster.partition([1], [3], silent=True)
    cluster.network.set_link("node-2", "node-1", latency=Latency.constant(1.0))
    await parse_step("read-barrier via 1").take(cluster)
    await campaign(cluster, 2)
    await cluster.wait_for_leader(other_than=cluster.nodes[1])
    await parse_step('append "b" via 2').take(cluster)
    await parse_step("read-barrier via 1").take(cluster)
    await parse_step("wait 2s").take(cluster)


LATE_FETCH = custom("a fetch arrives after its sender has elected another leader", _late_fetch)


async def _ignorant_leader(cluster: Cluster) -> None:
    """A leader dies as soon as it has acknowledged an append.  Its successor has the record, and cannot commit yet."""
    await parse_step("elect 1").take(cluster)
    await cluster.wait_until_alike()
    operation = cluster.history.invoke("append", client="writer", values=[b"a"], via=1)
    cluster.history.succeed(operation, offsets=await cluster.nodes[1].append([b"a"]))
    cluster.machines[1].kill()
    for machine in cluster.machines.values():
        machine.disk.sync_latency = lambda: 0.3
    await cluster.wait_until(lambda: cluster.leader() is not None)
    leader = cluster.leader()
    assert leader is not None
    await parse_step(f"read-barrier via {leader.key.id}").take(cluster)
    await parse_step("wait 3s").take(cluster)


IGNORANT_LEADER = custom("a leader dies as soon as it has acknowledged an append", _ignorant_leader)

DRIFT = 0.1
DRIFTING = custom(
    "a leader with a slow clock is cut off, and one with a fast clock takes over",
    leader_cut_off(DRIFT),
    settings=lease_setup(DRIFT).settings,
)


async def _unwilling(cluster: Cluster) -> None:
    """The voter that takes over has no leases in its configuration."""
    without = attrs.evolve(cluster.config_of(2), read_lease_max_clock_drift_ppm=-1)
    cluster._configs[2] = without
    await leader_cut_off(0.0)(cluster)


UNWILLING = custom("a voter without leases takes over", _unwilling, settings=lease_setup(0.0).settings)

BARRIERS = storm(
    "reads behind barriers",
    *("isolate", "halves", "one_way", "slow_links", "clog", "duplicates", "pause", "campaign", "kill", "drift"),
    gap_s=0.3,
    clients=4,
    operations_per_s=25,
    seconds=8,
)


@mutant(
    breaks="a leader confirms that it leads before it gives a read index",
    found_by=(25,),
    run=LATE_FETCH,
)
def a_leader_takes_its_word_for_it() -> Iterable[Change]:
    def confirmed_round(_voters: object, _confirmed: object, _leader: object, newest: int) -> int:
        return newest

    return [(read_barriers, "confirmed_round", confirmed_round)]


@mutant(
    breaks="a Fetch confirms only the round that its sender was given",
    found_by=(25,),
    run=LATE_FETCH,
)
def a_fetch_of_before_the_read_counts() -> Iterable[Change]:
    def fetched(self: Any, _message: FetchReceived, replica: ReplicaKey) -> None:
        self._rounds.confirmed[replica] = self._rounds.newest
        self.answer()

    return [(ReadBarriers, "fetched", fetched)]


@mutant(
    breaks="a new leader gives no read index before its first commit",
    found_by=(25,),
    run=IGNORANT_LEADER,
)
def the_high_watermark_of_an_older_epoch_is_a_read_index() -> Iterable[Change]:
    real = LeaderReplication.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        self._barriers._high_watermark = lambda: self._log.high_watermark

    return [(LeaderReplication, "__init__", init)]


@mutant(
    breaks="a read that begins after a round was given needs a newer one",
    found_by=(25,),
    run=LATE_FETCH,
)
def all_reads_share_the_round_under_way() -> Iterable[Change]:
    real = ReadBarriers.begin

    def begin(self: Any, message: ReadIndexRequested) -> None:
        self._rounds._is_given = not self._rounds.newest
        real(self, message)

    return [(ReadBarriers, "begin", begin)]


@mutant(
    breaks="a barrier waits until this node has applied the records",
    found_by=(21, 25),
    run=BARRIERS,
    seeds=3,
)
def a_barrier_does_not_wait_for_the_application() -> Iterable[Change]:
    async def read_barrier(self: Any) -> ReadIndex:
        read_index: ReadIndex = await self.read_indexes.read_index()
        return read_index

    return [(NodeTree, "read_barrier", read_barrier)]


@mutant(
    breaks="a lease is shorter than the wait of a new leader, by what both clocks may drift",
    found_by=(25,),
    run=DRIFTING,
)
def a_lease_lasts_as_long_as_the_wait() -> Iterable[Change]:
    return [(read_lease, "lease_ms", lambda wait_ms, _drift: wait_ms)]


@mutant(
    breaks="a new leader commits nothing until the leases of earlier leaders are over",
    found_by=(25,),
    run=DRIFTING,
)
def a_new_leader_does_not_wait_for_leases() -> Iterable[Change]:
    real = LeaderReplication.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        self._waits_out_leases = False

    return [(LeaderReplication, "__init__", init)]


@mutant(
    breaks="there is a lease only if every voter would wait",
    found_by=(25,),
    run=UNWILLING,
)
def voters_that_promise_nothing_are_not_asked() -> Iterable[Change]:
    def length_s(self: Any, _voters: object) -> float:
        return read_lease.lease_ms(min([self._own_wait_ms, *filter(None, self._promises.values())]), 0.0) / 1000

    return [(ReadLease, "length_s", length_s)]
