"""The nodes of a quorum are asked each on its own, and the page gets what they told last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from kraft_trio.client.claims import Told
from kraft_trio.dashboard.board import board_of
from kraft_trio.dashboard.node_watch import NodeWatch
from kraft_trio.dashboard.quorum_watch import ANSWER_MS, ASK_EVERY_S, FORGET_S, QuorumWatch
from kraft_trio.diagnosis.quorum_situation import Claim
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation import Cluster
from tests.support.on_cluster import on_cluster


@asynccontextmanager
async def watching(cluster: Cluster, *node_ids: int) -> AsyncIterator[QuorumWatch]:
    named = [cluster.endpoint_of(node_id) for node_id in node_ids]
    network = cluster.network.seen_from("10.9.9.9")
    watch = QuorumWatch(network, lambda: named, fetch_timeout_ms=2000, wall_clock_ms=lambda: 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        with watch.looking():
            yield watch
        nursery.cancel_scope.cancel()


def board(watch: QuorumWatch) -> dict[str, Any]:
    return board_of(watch, {"kind": "dashboard"})


def codes(watch: QuorumWatch) -> list[str]:
    return [finding["code"] for finding in board(watch)["findings"]]


@on_cluster()
async def test_every_field_is_documented(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    async with watching(cluster, 1, 2, 3) as watch:
        await cluster.wait_until(lambda: len(watch.watches) == 3)
        told = board(watch)
    document = (Path(__file__).parents[2] / "docs" / "reference" / "status.md").read_text()
    fields = document.partition("A `board` has these fields")[2].partition("##")[0]
    of_board, _, of_claims = fields.partition("A claim is what one node reports about itself")
    assert [name for name in told if f"`{name}`" not in of_board] == []
    assert [name for name in told["claims"][0] if f"`{name}`" not in of_claims] == []
    for kind in ("findings", "survival", "voters"):
        [row] = [row for row in of_board.splitlines() if row.startswith(f"| `{kind}` |")]
        assert [name for name in told[kind][0] if f"`{name}`" not in row] == [], kind


@on_cluster()
async def test_one_node_leads_to_the_others_and_to_the_whole_picture(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with watching(cluster, 2) as watch:
        await cluster.wait_until(lambda: len(watch.watches) == 3)
        await leader.append([b"x"])  # the nodes measure from the first question on
        await cluster.wait_until_alike()
        await trio.sleep(2 * ASK_EVERY_S)
        assert codes(watch) == ["survival"]
        told = board(watch)
    assert (told["leaderId"], told["epoch"]) == (leader.key.id, leader.view.epoch)
    assert [claim["nodeId"] for claim in told["claims"]] == [1, 2, 3]
    assert {claim["role"] for claim in told["claims"]} == {"leader", "follower"}
    [survival] = told["survival"]
    assert (survival["up"], survival["majority"], survival["spare"]) == ((1, 2, 3), 2, 1)
    for voter in told["voters"]:
        assert voter["isLeader"] == (voter["id"] == leader.key.id)
        assert voter["lag"] == 0
        assert voter["vitals"]["syncP99Ms"] is not None
        assert voter["vitals"]["certificateExpiresMs"] is None


@on_cluster()
async def test_a_node_that_hangs_delays_no_other_and_keeps_its_last_answer(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    hanging = next(node_id for node_id in (1, 2, 3) if node_id != leader.key.id)
    async with watching(cluster, 1, 2, 3) as watch:
        await leader.append([b"x"])
        await cluster.wait_until(lambda: len(watch.watches) == 3 and codes(watch) == ["survival"])
        cluster.machines[hanging].pause()
        paused_at_s = trio.current_time()
        await trio.sleep(3 * ANSWER_MS / 1000)
        told = board(watch)
        [silent] = [claim for claim in told["claims"] if claim["problem"] is not None]
        assert silent["nodeId"] == hanging
        assert silent["last"]["leaderId"] == leader.key.id
        assert silent["ageMs"] >= (trio.current_time() - paused_at_s) * 1000 - 1
        for claim in told["claims"]:
            assert claim is silent or claim["ageMs"] < 2 * ANSWER_MS
        [voter] = [voter for voter in told["voters"] if voter["id"] == hanging]
        assert (voter["health"], voter["isSilent"]) == ("offline", True)
        assert voter["vitals"]["snapshots"] == 0
        cluster.machines[hanging].resume()
        await cluster.wait_until(lambda: codes(watch) == ["survival"])


@on_cluster(voters=1, observers=1)
async def test_observers_are_shown(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    [observer] = set(cluster.nodes) - {1}
    async with watching(cluster, 1) as watch:
        await cluster.wait_until(lambda: bool(watch.watches and board(watch)["observers"]))
        [told] = board(watch)["observers"]
    document = (Path(__file__).parents[2] / "docs" / "reference" / "status.md").read_text()
    [row] = [row for row in document.splitlines() if row.startswith("| `observers` |")]
    assert [name for name in told if f"`{name}`" not in row] == []
    assert (told["id"], told["kind"], told["fetches"]) == (observer, None, True)


@on_cluster()
async def test_the_history_tells_why_a_leader_was_lost(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    epoch = leader.view.epoch
    async with watching(cluster, 1, 2, 3) as watch:
        await cluster.wait_until(lambda: len(watch.watches) == 3)
        cluster.machines[leader.key.id].kill()
        await cluster.wait_until(lambda: (board(watch)["epoch"] or 0) > epoch and board(watch)["leaderId"] is not None)
        events = watch.history.since(0)
    assert any(event["what"] == "unreachable" and event["node"] == leader.key.id for event in events)
    missed = [event for event in events if event.get("by") == "FETCH_TIMED_OUT" and event["epoch"] == epoch]
    assert missed
    assert all(event["node"] != leader.key.id for event in missed)


@on_cluster()
async def test_nobody_is_asked_while_nobody_looks(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    network = cluster.network.seen_from("10.9.9.9")
    endpoint = cluster.endpoint_of(1)
    watch = QuorumWatch(network, lambda: [endpoint], fetch_timeout_ms=2000, wall_clock_ms=lambda: 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.sleep(10)
        assert watch.watches == ()
        with watch.looking():
            await cluster.wait_until(lambda: len(watch.watches) == 3)
        await trio.sleep(10)
        assert all((one.age_ms(trio.current_time()) or 0) > 5000 for one in watch.watches)
        nursery.cancel_scope.cancel()


@on_cluster()
async def test_a_silent_node_that_nobody_names_any_more_is_forgotten(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    named = [cluster.endpoint_of(1), Endpoint("gone", 9093)]
    network = cluster.network.seen_from("10.9.9.9")
    watch = QuorumWatch(network, lambda: named, fetch_timeout_ms=2000, wall_clock_ms=lambda: 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        with watch.looking():
            await cluster.wait_until(lambda: len(watch.watches) == 4)
            await trio.sleep(2 * FORGET_S)
            assert len(watch.watches) == 4
            named.pop()
            await trio.sleep(3 * ASK_EVERY_S)
            assert [one.node_id for one in watch.watches if one.node_id] == [1, 2, 3]
            assert len(watch.watches) == 3
        nursery.cancel_scope.cancel()


def test_a_silent_node_keeps_its_name_and_what_its_disk_had_left() -> None:
    watch = NodeWatch(Endpoint("a", 1))
    watch.heard(Told(Claim("a:1", node_id=7, epoch=3, free_bytes=5), status={"role": "leader"}), 10.0)
    watch.heard(Told(Claim("a:1", "refused")), 12.0)
    watch.heard(Told(Claim("a:1", "refused")), 14.0)
    assert watch.newest is not None
    claim = watch.newest.claim
    assert (claim.problem, claim.node_id, claim.free_bytes, claim.epoch) == ("refused", 7, 5, None)
    assert (watch.silent_since_s, watch.age_ms(15.0), watch.status["role"]) == (12.0, 5000, "leader")


@on_cluster()
async def test_without_a_majority_the_voters_that_are_down_are_counted(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    async with watching(cluster, 1, 2, 3) as watch:
        await cluster.wait_until(lambda: len(watch.watches) == 3)
        for node_id in (1, 2, 3):
            if node_id != leader.key.id:
                cluster.machines[node_id].kill()
        await cluster.wait_until(lambda: "no-majority" in codes(watch))
        [survival] = board(watch)["survival"]
    assert (survival["up"], survival["spare"]) == ((leader.key.id,), -1)
