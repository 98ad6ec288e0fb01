"""What a flood of requests or a disk that hangs can take from a node: nothing but their own time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.dashboard.app import Pages, error
from kraft_trio.dashboard.quorum_watch import QuorumWatch
from kraft_trio.http.stream_places import StreamPlaces
from kraft_trio.simulation import Cluster
from kraft_trio.status import health
from kraft_trio.status.app import EXPLANATIONS_PER_S, REQUESTS_PER_S, PacedEndpoint, StatusApplication
from kraft_trio.status.health import DiskProbe
from kraft_trio.status.node_status import NodeStatus
from kraft_trio.tracing.event_feed import EventFeed
from tests.kv.gateways import FakeExchange
from tests.support.on_cluster import on_cluster


@on_cluster()
async def test_a_flood_of_requests_waits_for_its_turn(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    tree, feed = cluster.nodes[1].tree, EventFeed(lambda: 0)
    watch = QuorumWatch(tree.network, list, fetch_timeout_ms=1000, wall_clock_ms=lambda: 0)
    pages = Pages(watch, dict, StreamPlaces(1, error))
    application = PacedEndpoint(StatusApplication(tree, NodeStatus(tree, feed), feed, pages))
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(3 * REQUESTS_PER_S + 1):
            nursery.start_soon(application, FakeExchange("GET", "/livez", {}, []))
    assert trio.current_time() - began_s > 2.9


@on_cluster()
async def test_a_flood_of_explanations_delays_no_other_request(cluster: Cluster) -> None:
    await cluster.wait_for_leader()
    tree, feed = cluster.nodes[1].tree, EventFeed(lambda: 0)
    watch = QuorumWatch(tree.network, list, fetch_timeout_ms=1000, wall_clock_ms=lambda: 0)
    pages = Pages(watch, dict, StreamPlaces(1, error))
    application = PacedEndpoint(StatusApplication(tree, NodeStatus(tree, feed), feed, pages))
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(3 * EXPLANATIONS_PER_S + 1):
            nursery.start_soon(application, FakeExchange("POST", "/v1/explain", {}, [b'{"claims": []}']))
        await trio.testing.wait_all_tasks_blocked()
        await application(FakeExchange("GET", "/livez", {}, []))
        assert trio.current_time() == began_s
    assert trio.current_time() - began_s > 2.9


async def test_a_disk_that_hangs_holds_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    began, released = threading.Event(), threading.Event()
    looks: list[str] = []

    def hang(directory: str) -> int:
        looks.append(directory)
        began.set()
        released.wait()
        return 0

    monkeypatch.setattr(health, "PROBE_TIMEOUT_S", 0.01)
    monkeypatch.setattr(health, "FRESH_S", 0)
    probe = DiskProbe("/", hang)
    try:
        for _ in range(3):
            assert all("did not answer" in str(check.problem) for check in await probe.checks())
        await trio.to_thread.run_sync(began.wait)
        assert len(looks) == 1
    finally:
        released.set()
    async with probe._thread:
        assert probe.newest_free_bytes is None, "an answer that came too late is none"


async def test_a_full_disk_is_not_ready(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PROBE_TIMEOUT_S", 60)
    probe = DiskProbe(str(tmp_path), lambda directory: 1000)
    problems = {check.name: check.problem for check in await probe.checks()}
    assert problems["log-directory-writable"] is None
    assert "1000 bytes left" in str(problems["disk-space"])
