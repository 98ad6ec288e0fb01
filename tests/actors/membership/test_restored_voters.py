"""An old copy of a voter's directory is started: the leader says so, and counts the voter as blank at first."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import attrs
import pytest
import structlog.testing
import trio

from kraft_trio.actors.context.restored_voters import OLD_COPY
from kraft_trio.client.claims import ask_all
from kraft_trio.diagnosis.finding import Finding, Severity
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.catalog import parse_step
from tests.support.on_cluster import on_cluster
from tests.support.trimming import on_trimming_cluster, trimmed


async def take(cluster: Cluster, *lines: str) -> None:
    for line in lines:
        await parse_step(line).take(cluster)


async def append(leader: Node, count: int) -> None:
    for number in range(count):
        await leader.append([b"%d" % number])


async def keep_copy(cluster: Cluster, node_id: int) -> None:
    await take(cluster, "settle", f"stop {node_id}", f"keep-disk {node_id}", f"start {node_id}", "settle")


async def restored_findings(cluster: Cluster) -> list[Finding]:
    nodes = [cluster.endpoint_of(id) for id in cluster.voter_ids]
    situation = await ask_all(cluster.network.seen_from("client"), nodes, timeout_ms=1000, fetch_timeout_ms=2000)
    return [one for one in findings(situation) if one.code == "restored-voter"]


def said(events: list[MutableMapping[str, Any]]) -> list[tuple[int, int]]:
    """Each return that was logged: what had been acknowledged, and where the log ended."""
    told = [event for event in events if event["event"] == OLD_COPY]
    assert all(event["log_level"] == "error" and "blank one" in event["what_to_do"] for event in told)
    return [(event["acknowledged"], event["came_back_at"]) for event in told]


@on_cluster(voters=3)
async def test_leader_says_that_an_old_copy_runs(cluster: Cluster) -> None:
    await take(cluster, "elect 1")
    leader = cluster.nodes[1]
    await keep_copy(cluster, 2)
    kept_end = leader.log.end_offset
    await append(leader, 50)
    await take(cluster, "settle")
    with structlog.testing.capture_logs() as events:
        await take(cluster, "stale-disk 2", "start 2", "settle", "expect alike")
    assert said(events) == [(kept_end + 50, kept_end)]
    assert leader.tree.metrics.values()["number-of-restored-voters"] == 1
    [found] = await restored_findings(cluster)
    assert found.severity is Severity.WARNING
    assert (
        f"Voter 2 came back at offset {kept_end}, but had acknowledged everything before {kept_end + 50}" in found.text
    )
    assert "says node 1" in found.text


@on_cluster(voters=3)
async def test_it_is_told_for_a_day(cluster: Cluster) -> None:
    await take(cluster, "elect 1")
    await keep_copy(cluster, 2)
    await append(cluster.nodes[1], 3)
    await take(cluster, "settle", "stale-disk 2", "start 2", "settle")
    cluster.machines[1].wall_clock_offset_ms = 23 * 3600 * 1000
    assert len(await restored_findings(cluster)) == 1
    cluster.machines[1].wall_clock_offset_ms = 25 * 3600 * 1000
    assert await restored_findings(cluster) == []


@on_trimming_cluster(voters=3)
async def test_copy_that_must_fetch_a_snapshot_is_noticed(cluster: Cluster) -> None:
    await take(cluster, "elect 1")
    leader = cluster.nodes[1]
    await keep_copy(cluster, 2)
    kept_end = leader.log.end_offset
    await trimmed(leader)
    await take(cluster, "settle")
    assert leader.log.log_start_offset > kept_end
    with structlog.testing.capture_logs() as events:
        await take(cluster, "stale-disk 2", "start 2", "settle", "expect alike")
    assert said(events) == [(leader.log.end_offset, kept_end)]


@on_cluster(voters=3)
async def test_leader_of_a_later_epoch_remembers_what_was_acknowledged(cluster: Cluster) -> None:
    """Without 3, the leader has no majority while 2 is away, and must be elected anew."""
    await take(cluster, "elect 1")
    leader = cluster.nodes[1]
    await keep_copy(cluster, 2)
    kept_end = leader.log.end_offset
    await append(leader, 50)
    await take(cluster, "settle", "kill 3", "crash 2")
    await cluster.wait_until(lambda: cluster.leader() is None)
    with structlog.testing.capture_logs() as events:
        await take(cluster, "stale-disk 2", "start 2")
        await cluster.wait_until(lambda: cluster.leader() is leader and leader.high_watermark == leader.log.end_offset)
    assert leader.view.epoch > 1
    assert said(events) == [(kept_end + 50, kept_end)]


@on_cluster(voters=3)
async def test_voter_that_lacks_records_counts_as_blank(cluster: Cluster) -> None:
    await take(cluster, "elect 1")
    leader = cluster.nodes[1]
    await keep_copy(cluster, 2)
    await append(leader, 10)
    await take(cluster, "settle")
    promised = leader.log.end_offset
    await take(cluster, "isolate 3", "stale-disk 2")
    # 2 gets a record at a time, so that it can be seen on the way.
    cluster._configs[2] = attrs.evolve(cluster.config_of(2), fetch_max_bytes=1)
    await take(cluster, "latency 50ms on 2 -> 1", "start 2")
    assert leader.tree.election.progress is not None
    [voter] = [voter for voter in leader.log.voters.voters if voter.id == 2]
    progress = leader.tree.election.progress.of_voter(voter)
    assert progress is not None
    await cluster.wait_until(lambda: progress.is_blank)
    assert 0 < progress.end_offset < promised
    ends = leader.tree.election.progress.synced_end_offsets(leader.log.voters.voters, leader.log.synced_end_offset)
    assert ends[voter.key] == 0
    assert not leader.tree.election.progress.is_caught_up(voter.key, 0.0)
    [found] = await restored_findings(cluster)
    assert found.severity is Severity.CRITICAL
    assert found.text.endswith(
        "It counts as blank until it has caught up. If it cannot, give its node a blank disk, and replace it."
    )
    assert str(found.command).endswith("replace -i 2")
    await cluster.wait_until(lambda: not progress.is_blank)
    assert progress.end_offset >= promised
    assert leader.view.epoch == 1, "what it fetches is progress, which keeps its leader"


@pytest.mark.rotating(4)
@pytest.mark.parametrize("fault", ["duplicates 30%", "resets 10%", "cut-frames 10%", "loss 20%"])
@on_cluster(voters=3)
async def test_late_and_repeated_requests_are_no_old_copy(cluster: Cluster, fault: str) -> None:
    await take(cluster, "elect 1", fault)
    with structlog.testing.capture_logs() as events:
        for number in range(100):
            with trio.move_on_after(1):
                await cluster.nodes[1].append([b"%d" % number])
        await take(cluster, "restart 2", "heal", "wait 5s")
    assert said(events) == []
