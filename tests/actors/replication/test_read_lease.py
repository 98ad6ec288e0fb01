"""Leases: a leader answers reads without a round trip, and a new leader waits until no lease can be left."""

from __future__ import annotations

import pytest
import trio

from kraft_trio.simulation import Cluster, InvariantViolated, Setup, simulate
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.wire.api import FETCH
from tests.simulation.mutants.runs import campaign
from tests.support.drifting_lease import KEY, WAIT_S, leader_cut_off, leading_with_a_lease, lease_setup
from tests.support.on_cluster import on_cluster
from tests.support.timing import set_timing


@on_cluster(settings={KEY: "1000"})
async def test_reads_under_a_lease_ask_nobody(cluster: Cluster) -> None:
    leader = await leading_with_a_lease(cluster)
    fetches_before = cluster.network.requests_sent["node-2", FETCH.key]
    began_s = cluster.now_s
    for _ in range(100):
        await leader.read_barrier()
    assert cluster.now_s == began_s
    assert cluster.network.requests_sent["node-2", FETCH.key] == fetches_before


@on_cluster(settings={KEY: "1000"})
async def test_reads_renew_the_lease_in_time(cluster: Cluster) -> None:
    leader = await leading_with_a_lease(cluster)
    fetches_before = cluster.network.requests_sent["node-2", FETCH.key]
    for _ in range(1000):
        began_s = cluster.now_s
        await leader.read_barrier()
        assert cluster.now_s == began_s
        await trio.sleep(0.01)
    # Two rounds for each lease, besides the fetches that expire.
    assert cluster.network.requests_sent["node-2", FETCH.key] - fetches_before < 10 / WAIT_S * 2 + 25


@on_cluster(settings={KEY: "1000"})
async def test_a_read_index_says_whether_a_lease_gave_it(cluster: Cluster) -> None:
    await leading_with_a_lease(cluster)
    for node in cluster.nodes.values():
        assert (await node.tree.read_barrier()).is_by_lease
    await trio.sleep(2 * WAIT_S)
    assert not (await cluster.nodes[2].tree.read_barrier()).is_by_lease, "it is over"


@on_cluster()
async def test_without_the_key_every_read_asks(cluster: Cluster) -> None:
    leader = await leading_with_a_lease(cluster)
    began_s = cluster.now_s
    await leader.read_barrier()
    assert cluster.now_s > began_s


@on_cluster(settings={KEY: "1000"})
async def test_a_new_leader_commits_nothing_while_a_lease_may_be_left(cluster: Cluster) -> None:
    old = await leading_with_a_lease(cluster)
    cluster.partition([1], [2, 3], silent=True)
    await campaign(cluster, 2)
    await cluster.wait_until(lambda: cluster.nodes[2].view.leader_mailbox is not None)
    new, elected_s = cluster.nodes[2], cluster.now_s
    await new.append([b"b"])
    assert cluster.now_s - elected_s >= WAIT_S - 0.02
    assert old.view.leader_mailbox is not None, "it does not know yet"
    with trio.move_on_after(0.5) as scope:
        await old.read_barrier()
    assert scope.cancelled_caught, "its lease is over"


@on_cluster(settings={KEY: "1000"})
async def test_a_voter_that_cannot_promise_prevents_leases(cluster: Cluster) -> None:
    """It might be elected and commit at once."""
    await parse_step("elect 1").take(cluster)
    cluster.machines[3].kill()
    await parse_step("elect 2").take(cluster)
    leader = cluster.nodes[2]
    for _ in range(3):
        await leader.read_barrier()
        await trio.sleep(0.1)
        began_s = cluster.now_s
        await leader.read_barrier()
        assert cluster.now_s > began_s


def test_a_sole_voter_waits_for_nobody() -> None:
    async def main(cluster: Cluster) -> None:
        set_timing(cluster)
        await cluster.wait_for_leader(within_s=0.1)

    simulate(main, Setup(voters=1, settings={KEY: "1000"}))


@pytest.mark.parametrize("limit", [0.0, 0.05, 0.1, 0.2])
def test_no_lease_reads_stale_state_up_to_the_drift_that_is_configured(limit: float) -> None:
    simulate(leader_cut_off(limit), lease_setup(limit))


@pytest.mark.parametrize("limit", [0.0, 0.05, 0.1])
def test_a_lease_is_unsafe_beyond_the_drift_that_is_configured(limit: float) -> None:
    """The limit is what keeps it safe, and it is not kept for nothing."""
    with pytest.raises(InvariantViolated) as caught:
        simulate(leader_cut_off(limit + 0.02), lease_setup(limit))
    assert caught.value.violation.invariant == 25
