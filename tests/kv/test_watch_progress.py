"""A progress notification names a revision only if the client has got everything up to it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.kv.gateway import watch_stream
from kraft_trio.kv.requests import PutRequest
from kraft_trio.simulation import Cluster
from tests.kv.gateways import FakeClient, b64, gateways, kv_setup
from tests.kv.machines import execute
from tests.support.on_cluster import on_cluster

KEY = b64("key")
PROGRESS = {"progress_request": {}}

Messages = trio.MemoryReceiveChannel[Any]


def watching(**fields: object) -> dict[str, object]:
    return {"create_request": {"key": KEY, **fields}}


async def put(client: FakeClient, *keys: str) -> None:
    for key in keys:
        await client.post("/v3/kv/put", {"key": b64(key)})


async def told(messages: Messages) -> list[dict[str, Any]]:
    """What the client has got when nothing more comes."""
    await trio.sleep(1)
    found = []
    while True:
        try:
            found.append(messages.receive_nowait()["result"])
        except trio.WouldBlock:
            return found


def is_progress(message: dict[str, Any]) -> bool:
    return not message.keys() - {"header", "watch_id"}


def check_progress(messages: list[dict[str, Any]], revisions: set[int]) -> list[int]:
    """Check that all events up to a progress notification came before it, and return the revisions it names."""
    seen: set[int] = set()
    named = []
    for message in messages:
        seen |= {int(event["kv"]["mod_revision"]) for event in message.get("events", ())}
        if is_progress(message):
            named.append(int(message["header"]["revision"]))
            assert {one for one in revisions if one <= named[-1]} <= seen, "a client that goes on from there loses some"
    return named


@on_cluster(**kv_setup(voters=1))
async def test_progress_is_told_after_all_that_it_covers(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        await put(serving.clients[1], *["key"] * 40)
        async with serving.clients[1].stream("/v3/watch", watching(start_revision=2), PROGRESS) as messages:
            assert check_progress(await told(messages), set(range(2, 42))) == [41]


@on_cluster(**kv_setup(voters=1))
async def test_progress_of_a_stream_waits_for_its_slowest_watch(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        await put(serving.clients[1], *["key"] * 10)
        old = watching(start_revision=2)
        async with serving.clients[1].stream("/v3/watch", watching(), old, PROGRESS, PROGRESS) as messages:
            await put(serving.clients[1], "key", "other")
            named = check_progress(await told(messages), set(range(2, 13)))
        assert named
        assert min(named) >= 11


@on_cluster(**kv_setup(voters=1))
async def test_without_a_watch_there_is_no_progress(cluster: Cluster) -> None:
    """As in etcd.  A watch of the future has none either, because its client waits for a later revision."""
    async with gateways(cluster) as serving:
        cancel = {"cancel_request": {"watch_id": 0}}
        for requests in (
            [PROGRESS],
            [watching(range_end=b64("a")), PROGRESS],
            [watching(), cancel, PROGRESS],
            [watching(start_revision=100), PROGRESS],
        ):
            async with serving.clients[1].stream("/v3/watch", *requests) as messages:
                assert not any(map(is_progress, await told(messages))), requests


@on_cluster(**kv_setup(voters=1))
async def test_a_watch_whose_events_are_filtered_makes_progress(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        await put(serving.clients[1], *["key"] * 5)
        requests = [watching(start_revision=2, filters=["NOPUT"]), PROGRESS]
        async with serving.clients[1].stream("/v3/watch", *requests) as messages:
            assert check_progress(await told(messages), set()) == [6]


@on_cluster(**kv_setup(voters=1))
async def test_a_change_at_the_moment_of_a_timed_notification_is_not_skipped(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_stream, "PROGRESS_INTERVAL_S", 5.0)
    async with gateways(cluster) as serving:
        machine = serving.services[1].machine
        async with serving.clients[1].stream("/v3/watch", watching(progress_notify=True)) as messages:
            assert (await messages.receive())["result"]["created"]
            began, got = trio.current_time(), []
            for number in range(20):  # which of the two tasks runs first is chance
                at = trio.current_time() + 5.0 if number else began + 5.0
                await trio.sleep_until(at)
                execute(machine, PutRequest(b"key"))
                got += await told_now(messages)
            check_progress(got, set(range(2, 22)))
            events = [int(event["kv"]["mod_revision"]) for one in got for event in one.get("events", ())]
        assert events == list(range(2, 22))


async def told_now(messages: Messages) -> list[dict[str, Any]]:
    await trio.testing.wait_all_tasks_blocked()
    found = []
    while messages.statistics().current_buffer_used:
        found.append(messages.receive_nowait()["result"])
    return found


@on_cluster(**kv_setup(voters=1))
async def test_the_header_of_events_names_no_revision_that_is_still_to_come(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraft_trio.kv.watches.EVENTS_AT_ONCE", 3)
    async with gateways(cluster) as serving:
        await put(serving.clients[1], *["key"] * 10)
        async with serving.clients[1].stream("/v3/watch", watching(start_revision=2)) as messages:
            got = await told(messages)
        last = [
            (int(one["events"][-1]["kv"]["mod_revision"]), int(one["header"]["revision"]))
            for one in got
            if "events" in one
        ]
        assert [event for event, _ in last] == [4, 7, 10, 11]
        assert [header for _, header in last] == [4, 7, 10, 11]


@on_cluster(**kv_setup(voters=1))
async def test_automatic_watch_ids_are_etcds(cluster: Cluster) -> None:
    """The smallest that was not given automatically before and is free."""
    async with gateways(cluster) as serving:
        requests = [watching(watch_id=1), watching(), watching(), watching(watch_id=9), watching()]
        async with serving.clients[1].stream("/v3/watch", *requests) as messages:
            ids = [one.get("watch_id", "0") for one in await told(messages)]
        assert ids == ["1", "0", "2", "9", "3"]
