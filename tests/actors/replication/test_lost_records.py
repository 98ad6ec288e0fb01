"""A majority that came back with older disks has lost committed records, which the other voter tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog.testing

from kraft_trio.client.claims import ask_all
from kraft_trio.diagnosis.finding import Severity
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.steps.expectations import values_of
from kraft_trio.status.own_view import own_view
from tests.support.on_cluster import on_cluster
from tests.support.trimming import on_trimming_cluster, trimmed


def kept_text(event: Mapping[str, Any]) -> str:
    return (
        f"offsets {event['first']} to {event['last']}, which node {event['leader_id']}, leader of epoch "
        f"{event['leader_epoch']}, lacks; this node keeps them, and takes no others"
    )


async def restored_majority(cluster: Cluster, lost: int = 10) -> Node:
    """Give 1 and 2 older disks, on which they commit another record while 3 cannot be reached.  Returns the leader."""
    await (await cluster.wait_for_leader()).append([b"old"])
    await cluster.wait_until_alike()
    restored = [cluster.machines[node_id] for node_id in (1, 2)]
    for machine in restored:
        machine.kept_disk = machine.disk.copy()
    leader = await cluster.wait_for_leader()
    await leader.append([b"%d" % number for number in range(lost)])
    await cluster.wait_until_alike()
    cluster.partition({3}, {1, 2}, silent=True)
    for machine in restored:
        machine.crash("all")
        await machine.wait_until_ended()
        assert machine.kept_disk is not None
        machine.replace_disk(machine.kept_disk)
        await machine.start()
    await cluster.wait_until(lambda: any(node.tree.election.leading for id, node in cluster.nodes.items() if id != 3))
    leader = next(node for id, node in cluster.nodes.items() if node.tree.election.leading and id != 3)
    await leader.append([b"new"])
    return leader


@on_cluster(voters=3, invariants=())
async def test_a_voter_that_runs_keeps_them_and_says_so(cluster: Cluster) -> None:
    await restored_majority(cluster)
    with structlog.testing.capture_logs() as events:
        cluster.heal()
        node = cluster.nodes[3]
        await cluster.wait_until(lambda: own_view(node.tree)["lostRecords"] is not None)
        told = own_view(node.tree)["lostRecords"]
        network, named = cluster.network.seen_from("client"), [cluster.endpoint_of(3)]
        situation = await ask_all(network, named, timeout_ms=1000, fetch_timeout_ms=2000)
    assert values_of(node) == ["old", *map(str, range(10))]
    refused = [event for event in events if event["event"] == "truncation of committed records refused"]
    assert len({(event["leader_id"], event["leader_epoch"]) for event in refused}) == len(refused), "once for a leader"
    last = refused[-1]
    assert (last["log_level"], last["last"]) == ("error", node.log.end_offset - 1)
    assert told == kept_text(last)
    [finding] = [one for one in findings(situation) if one.code == "lost-records"]
    assert finding.severity is Severity.CRITICAL
    assert told in finding.text


@on_trimming_cluster(voters=3, invariants=())
async def test_an_older_snapshot_takes_nothing_away_either(cluster: Cluster) -> None:
    leader = await restored_majority(cluster, 300)
    snapshot_id = await trimmed(leader)
    with structlog.testing.capture_logs() as events:
        cluster.heal()
        node = cluster.nodes[3]
        end_offset = node.log.end_offset
        await cluster.wait_until(lambda: own_view(node.tree)["lostRecords"] is not None)
    refused = [event for event in events if event["event"] == "truncation of committed records refused"]
    assert (refused[-1]["first"], refused[-1]["last"]) == (snapshot_id.offset, end_offset - 1)
    assert own_view(node.tree)["lostRecords"] == kept_text(refused[-1])
    assert node.log.end_offset == end_offset


@on_cluster(voters=3, invariants=())
async def test_a_voter_that_was_started_again_drops_them_and_says_so(cluster: Cluster) -> None:
    await restored_majority(cluster)
    machine = cluster.machines[3]
    end_offset = cluster.nodes[3].log.end_offset
    machine.kill()
    cluster.heal()
    with structlog.testing.capture_logs() as events:
        await machine.start()
        await cluster.wait_until_alike()
    assert values_of(cluster.nodes[3]) == ["old", "new"]
    [told] = [event for event in events if event["event"] == "committed records truncated"]
    assert (told["log_level"], told["last"]) == ("error", end_offset - 1)
    assert own_view(cluster.nodes[3].tree)["lostRecords"] == (
        f"offsets {told['first']} to {end_offset - 1}, which this node dropped to follow node {told['leader_id']} in "
        f"epoch {told['leader_epoch']}"
    )
