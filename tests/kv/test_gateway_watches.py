"""The gateway on a simulated quorum: what clients see of watches."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.kv.gateway import watch_stream
from kraft_trio.kv.gateway.request_stream import MAX_STREAMED_BYTES
from kraft_trio.kv.gateway.watch_stream import KEY_BYTES_OF_WATCH, MAX_WATCHES_OF_ADDRESS
from kraft_trio.kv.requests import FilterType, WatchCreateRequest
from kraft_trio.kv.watches import EventReader
from kraft_trio.simulation import Cluster
from tests.kv.gateways import FakeClient, b64, gateways, kv_setup
from tests.support.on_cluster import on_cluster

KEY = b64("key")


@on_cluster(**kv_setup())
async def test_a_watch_tells_what_happens_on_other_nodes(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        watch = {"create_request": {"key": b64("a"), "range_end": b64("c"), "prev_kv": True}}
        async with serving.clients[1].stream("/v3/watch", watch) as events:
            assert (await events.receive())["result"]["created"] is True
            for key in ("a", "b", "c", "b"):
                await serving.clients[2].post("/v3/kv/put", {"key": b64(key)})
            await serving.clients[3].post("/v3/kv/deleterange", {"key": b64("a"), "range_end": b64("z")})
            seen = []
            while len(seen) < 5:
                seen += (await events.receive())["result"]["events"]
        assert [(one.get("type", "PUT"), one["kv"]["key"], one["kv"]["mod_revision"]) for one in seen] == [
            ("PUT", b64("a"), "2"),
            ("PUT", b64("b"), "3"),
            ("PUT", b64("b"), "5"),
            ("DELETE", b64("a"), "6"),
            ("DELETE", b64("b"), "6"),
        ]
        assert [one.get("prev_kv", {}).get("mod_revision") for one in seen] == [None, None, "3", "2", "5"]


@on_cluster(**kv_setup())
async def test_a_watch_continues_on_another_node(cluster: Cluster) -> None:
    """A client that continues from the revision after the last one it has seen misses nothing."""
    async with gateways(cluster) as serving:
        for number in range(5):
            await serving.clients[1].post("/v3/kv/put", {"key": KEY, "value": b64(str(number))})
        for node_id in serving.clients:
            watch = {"create_request": {"key": KEY, "start_revision": "4"}}
            async with serving.clients[node_id].stream("/v3/watch", watch) as events:
                seen = [await events.receive() for _ in range(2)]
            assert [one["kv"]["value"] for one in seen[1]["result"]["events"]] == [b64("2"), b64("3"), b64("4")]


@on_cluster(**kv_setup(voters=1))
async def test_a_watch_of_compacted_revisions_is_cancelled(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        for _ in range(5):
            await serving.clients[1].post("/v3/kv/put", {"key": KEY})
        await serving.clients[1].post("/v3/kv/compaction", {"revision": 4})
        watch = {"create_request": {"key": KEY, "start_revision": 3}}
        async with serving.clients[1].stream("/v3/watch", watch) as events:
            assert "created" in (await events.receive())["result"]
            cancelled = (await events.receive())["result"]
        assert (cancelled["canceled"], cancelled["compact_revision"]) == (True, "4")


@on_cluster(**kv_setup(voters=1))
async def test_a_compaction_does_not_disturb_watches_of_the_present(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        async with serving.clients[1].stream("/v3/watch", {"create_request": {"key": KEY}}) as events:
            await events.receive()
            for _ in range(5):
                await serving.clients[1].post("/v3/kv/put", {"key": b64("other")})
            await serving.clients[1].post("/v3/kv/compaction", {"revision": 6})
            await serving.clients[1].post("/v3/kv/put", {"key": KEY})
            assert (await events.receive())["result"]["events"][0]["kv"]["mod_revision"] == "7"


@on_cluster(**kv_setup(voters=1))
async def test_one_stream_has_several_watches(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        requests = [
            {"create_request": {"key": b64("a")}},
            {"create_request": {"key": b64("b"), "watch_id": 7}},
            {"create_request": {"key": b64("b"), "watch_id": 7}},
            {"create_request": {"key": b64("b"), "range_end": b64("a")}},
            {"cancel_request": {"watch_id": 0}},
            {"progress_request": {}},
        ]
        async with serving.clients[1].stream("/v3/watch", *requests) as events:
            told = [(await events.receive())["result"] for _ in requests]
            names = ("watch_id", "created", "canceled")
            assert [tuple(map(one.get, names, ("0", False, False))) for one in told] == [
                ("0", True, False),
                ("7", True, False),
                ("-1", True, True),
                ("-1", True, True),
                ("0", False, True),
                ("-1", False, False),
            ]
            await serving.clients[1].post("/v3/kv/put", {"key": b64("a")})
            await serving.clients[1].post("/v3/kv/put", {"key": b64("b")})
            assert (await events.receive())["result"]["watch_id"] == "7"


@on_cluster(**kv_setup(voters=1))
async def test_an_address_has_so_many_watches(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many streams it opens.  Other addresses have as many, and it may begin others when some have ended."""
    monkeypatch.setattr(watch_stream, "MAX_WATCHES_OF_ADDRESS", 3)
    watch = {"create_request": {"key": KEY}}
    async with gateways(cluster) as serving:
        client, other = serving.clients[1], FakeClient(serving.clients[1].app, "other")

        async def begun(client: FakeClient, count: int) -> list[bool]:
            async with client.stream("/v3/watch", *[watch] * count) as events:
                told = [(await events.receive())["result"] for _ in range(count)]
                return ["canceled" not in one for one in told]

        async with client.stream("/v3/watch", watch, watch) as events:
            await events.receive()
            await events.receive()
            assert await begun(client, 2) == [True, False]
            assert await begun(other, 3) == [True, True, True]
        assert await begun(client, 4) == [True, True, True, False]
        await trio.testing.wait_all_tasks_blocked()
        assert not serving.services[1].watches


@on_cluster(**kv_setup(voters=1))
async def test_watches_of_long_keys_count_as_several(cluster: Cluster) -> None:
    """Those of an address hold no more memory for it."""
    length = MAX_STREAMED_BYTES // 2
    allowed = MAX_WATCHES_OF_ADDRESS // (1 + length // KEY_BYTES_OF_WATCH)
    async with gateways(cluster) as serving:
        client = serving.clients[1]
        watch = {"create_request": {"key": b64(b"k" * length)}}
        async with client.stream("/v3/watch", *[watch] * (allowed + 1)) as events:
            told = [(await events.receive())["result"] for _ in range(allowed + 1)]
            assert ["canceled" in one for one in told] == [False] * allowed + [True]
        await trio.testing.wait_all_tasks_blocked()
        assert not serving.services[1].watches


@on_cluster(**kv_setup(voters=1))
async def test_a_watch_keeps_each_filter_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message has room for 20,000 of them, which would be looked at for each change."""
    kept: list[WatchCreateRequest] = []

    def noting(watch: WatchCreateRequest, revision: int) -> EventReader:
        kept.append(watch)
        return EventReader(watch, revision)

    monkeypatch.setattr(watch_stream, "EventReader", noting)
    async with gateways(cluster) as serving:
        watch = {"create_request": {"key": KEY, "filters": ["NOPUT", "NODELETE"] * 9_000}}
        async with serving.clients[1].stream("/v3/watch", watch) as events:
            await events.receive()
            await trio.testing.wait_all_tasks_blocked()
    assert kept[0].filters == (FilterType.NOPUT, FilterType.NODELETE)


@on_cluster(**kv_setup(voters=1))
async def test_an_idle_watch_is_told_of_progress(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_stream, "PROGRESS_INTERVAL_S", 5.0)
    async with gateways(cluster) as serving:
        watch = {"create_request": {"key": KEY, "progress_notify": True}}
        async with serving.clients[1].stream("/v3/watch", watch) as events:
            await events.receive()
            await serving.clients[1].post("/v3/kv/put", {"key": b64("other")})
            progress = (await events.receive())["result"]
        assert progress["header"]["revision"] == "2"
        assert "events" not in progress


@on_cluster(**kv_setup(voters=1))
async def test_changes_of_other_keys_cost_a_watch_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_from = []

    def noting(watch: WatchCreateRequest, revision: int) -> EventReader:
        looked_from.append(revision)
        return EventReader(watch, revision)

    monkeypatch.setattr(watch_stream, "EventReader", noting)
    async with gateways(cluster) as serving:
        async with serving.clients[1].stream("/v3/watch", {"create_request": {"key": KEY}}) as events:
            await events.receive()
            for _ in range(5):
                await serving.clients[1].post("/v3/kv/put", {"key": b64("other")})
            await serving.clients[1].post("/v3/kv/put", {"key": KEY})
            assert (await events.receive())["result"]["events"][0]["kv"]["mod_revision"] == "7"
            await trio.testing.wait_all_tasks_blocked()
    assert looked_from[:2] == [2, 7], "it looks again when its key changes, and at no earlier change"
    assert len(looked_from) <= 3


@on_cluster(**kv_setup(voters=1))
async def test_a_watch_that_was_told_of_progress_survives_a_compaction(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_stream, "PROGRESS_INTERVAL_S", 5.0)
    async with gateways(cluster) as serving:
        watch = {"create_request": {"key": KEY, "progress_notify": True}}
        async with serving.clients[1].stream("/v3/watch", watch) as events:
            await events.receive()
            for _ in range(5):
                await serving.clients[1].post("/v3/kv/put", {"key": b64("other")})
            await serving.clients[1].post("/v3/kv/compaction", {"revision": 6})
            for _ in range(2):
                assert set((await events.receive())["result"]) == {"header"}
            await serving.clients[1].post("/v3/kv/put", {"key": KEY})
            assert (await events.receive())["result"]["events"][0]["kv"]["mod_revision"] == "7"
