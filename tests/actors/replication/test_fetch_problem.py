"""Why a voter gets no records: what its operator is told while it cannot reach the leader."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft_trio.actors.network.leader_requests import LeaderRequests
from kraft_trio.actors.peers.answers import Answer, Ready
from kraft_trio.actors.snapshots.snapshot_fetch import FIRST_PAUSE_S
from kraft_trio.errors import ProtocolError
from kraft_trio.node import Node
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.script.steps import disk
from kraft_trio.status.health import readiness
from kraft_trio.status.own_view import own_view
from kraft_trio.storage.disk.part_file import SPARED_BYTES
from kraft_trio.storage.log.log import Log
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.trimming import on_trimming_cluster, trimmed, until_alike


def without_leader(node: Node[Any]) -> str | None:
    """Why the node does not call itself ready as far as its leader is concerned."""
    [check] = [one for one in readiness(node.tree, ()) if one.name == "leader-known"]
    return check.problem


@pytest.mark.parametrize(("silent", "reason"), [(True, "no answer to a Fetch"), (False, "Connection refused")])
@on_cluster()
async def test_reason_is_told_until_the_leader_answers_again(cluster: Cluster, silent: bool, reason: str) -> None:
    """It outlasts the stay as a follower, which ends while the leader cannot be reached."""
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    lonely, _ = cluster.others(leader)
    assert own_view(lonely.tree)["fetchProblem"] is None
    cluster.partition({lonely.key.id}, set(cluster.voter_ids) - {lonely.key.id}, silent=silent)
    await cluster.wait_until(lambda: lonely.view.leader_id is None)
    assert reason in own_view(lonely.tree)["fetchProblem"]
    assert own_view(leader.tree)["fetchProblem"] is None
    cluster.heal()
    await cluster.wait_until(lambda: own_view(lonely.tree)["fetchProblem"] is None)
    assert lonely.view.leader_id is not None


@on_cluster()
async def test_a_leader_does_not_tell_what_failed_while_it_followed(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    leader.tree.fetch_problem.reason = "an old one"
    assert own_view(leader.tree)["fetchProblem"] is None


@on_cluster()
async def test_readiness_says_why_no_record_has_come(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    node_id = cluster.others(leader)[0].key.id
    cluster.partition({node_id}, set(cluster.voter_ids) - {node_id})
    cluster.machines[node_id].crash()
    lonely = await cluster.machines[node_id].start()
    assert lonely is not None
    lonely.tree.fetch_problem.reason = "wrong password"

    def problem() -> str | None:
        [check] = [one for one in readiness(lonely.tree, ()) if one.name == "high-watermark-known"]
        return check.problem

    assert problem() == "not known since the start; the last Fetch failed: wrong password"
    cluster.heal()
    await cluster.wait_until_alike()
    assert problem() is None


@on_cluster()
async def test_records_that_are_refused_are_a_problem(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower, _ = cluster.others(leader)
    append = Log.append_as_follower

    def refusing(log: Log, records: bytes, **options: Any) -> None:
        if log is follower.log:
            raise ProtocolError("a wrong CRC")
        append(log, records, **options)

    monkeypatch.setattr(Log, "append_as_follower", refusing)
    await leader.append([b"x"])
    await cluster.wait_until(lambda: own_view(follower.tree)["fetchProblem"] == "records refused: a wrong CRC")
    await trio.sleep(2 * follower.config.fetch_timeout_ms / 1000)
    told = without_leader(follower)
    assert told is not None, "it is not ready, although the leader answers it"
    assert told.endswith(" s: records refused: a wrong CRC")
    monkeypatch.setattr(Log, "append_as_follower", append)
    await cluster.wait_until(lambda: own_view(follower.tree)["fetchProblem"] is None)
    assert without_leader(follower) is None


@on_trimming_cluster()
async def test_snapshot_without_room_is_a_problem_until_it_is_taken(cluster: Cluster) -> None:
    """Also while it is put off, and the follower only stays in contact with the leader."""
    leader = await cluster.wait_for_leader()
    behind = cluster.machines[cluster.others(leader)[0].key.id]
    behind.kill()
    await trimmed(leader)
    await disk.full_disk(behind.id, SPARED_BYTES // 2).take(cluster)
    node = await behind.start()
    assert node is not None
    await cluster.wait_until(lambda: node.tree.fetch_problem.reason is not None)
    for _ in range(20):
        await trio.sleep(FIRST_PAUSE_S / 4)
        assert "snapshot refused: " in str(own_view(node.tree)["fetchProblem"])
    assert "snapshot refused: " in str(without_leader(node))
    await disk.free_disk(behind.id).take(cluster)
    await until_alike(cluster)
    assert own_view(node.tree)["fetchProblem"] is None


@on_trimming_cluster()
async def test_snapshot_that_the_leader_refuses_is_a_problem(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await cluster.wait_for_leader()
    behind = cluster.machines[cluster.others(leader)[0].key.id]
    behind.kill()
    await trimmed(leader)

    async def refuse(*_: object) -> Answer:
        return Ready(FetchSnapshotResponse(ErrorCode.cluster_authorization_failed))

    with monkeypatch.context() as denying:
        denying.setattr(LeaderRequests, "fetch_snapshot", refuse)
        node = await behind.start()
        assert node is not None
        told = f"node {leader.key.id} answers cluster_authorization_failed"
        await cluster.wait_until(lambda: own_view(node.tree)["fetchProblem"] == told)
    await until_alike(cluster)
    assert own_view(node.tree)["fetchProblem"] is None


@on_cluster()
async def test_whoever_comes_to_lead_forgets_what_failed_before(cluster: Cluster) -> None:
    """Or an old reason would be told again once it leads no more."""
    old = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    others = cluster.others(old)
    cluster.machines[old.key.id].kill()
    await cluster.wait_until(lambda: all(node.tree.fetch_problem.reason for node in others))
    leader = await cluster.wait_for_leader(other_than=old)
    assert (leader.tree.fetch_problem.reason, leader.tree.fetch_problem.since_s) == (None, None)
