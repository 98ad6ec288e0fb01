"""What a watch has to tell is told in messages and in turns of limited size, and no message is torn."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from kraft_trio.actors.waiting.loop_turns import LoopTurns
from kraft_trio.http.exchange import JSON
from kraft_trio.kv import KvMachine, watches
from kraft_trio.kv.gateway import change_waiters, watch_messages, watch_stream
from kraft_trio.kv.gateway.read_turns import KEYS_PER_UNIT, UNITS_PER_TURN
from kraft_trio.kv.requests import (
    CompactionRequest,
    DeleteRangeRequest,
    PutRequest,
    RequestOp,
    TxnRequest,
    WatchCreateRequest,
)
from kraft_trio.kv.responses import Event
from kraft_trio.kv.store import Store
from kraft_trio.kv.watches import Batch, EventReader
from kraft_trio.simulation import Cluster
from tests.kv.gateways import FakeExchange, Gateways, b64, gateways, kv_setup
from tests.kv.machines import execute
from tests.support.on_cluster import on_cluster

VALUE = b"v" * 700_000
LIMIT = watches.BYTES_AT_ONCE * 4 // 3 + 1000
"""Of a message, as JSON, if no revision has more."""
ALL = {"key": b64("\0"), "range_end": b64("\0")}


def create(**fields: object) -> dict[str, object]:
    return {"create_request": {**ALL, "start_revision": 2, **fields}}


@attrs.define(kw_only=True)
class SlowExchange(FakeExchange):
    """An exchange whose client reads when it is allowed to, and sends when it wants to."""

    requests: trio.MemoryReceiveChannel[bytes]
    may_read: trio.Event = attrs.field(factory=trio.Event)
    is_sending: bool = False
    pieces: list[bytes] = attrs.field(factory=list)
    """What was sent at once, of everything that is whole."""

    async def next_part(self) -> bytes:
        async for part in self.requests:
            return part
        return b""

    async def stream(self, content: bytes, content_type: bytes = JSON) -> None:
        self.status = 200
        await self._send([content])

    async def stream_pieces(self, size: int, pieces: AsyncIterator[bytes]) -> None:
        await self._send([piece async for piece in pieces])

    async def _send(self, pieces: list[bytes]) -> None:
        assert not self.is_sending, "another message was torn"
        self.is_sending = True
        if b'"events"' in b"".join(pieces):
            await self.may_read.wait()
        self.pieces += pieces
        self.is_sending = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in b"".join(self.pieces).splitlines()]


@attrs.define
class SlowClient:
    exchange: SlowExchange
    send_channel: trio.MemorySendChannel[bytes]

    async def send(self, *requests: object) -> None:
        for request in requests:
            await self.send_channel.send(request if isinstance(request, bytes) else json.dumps(request).encode())
        await trio.testing.wait_all_tasks_blocked()

    async def read(self) -> list[dict[str, Any]]:
        """Read everything."""
        self.exchange.may_read.set()
        await trio.sleep(1)
        return self.exchange.messages


@asynccontextmanager
async def slow_client(serving: Gateways) -> AsyncIterator[SlowClient]:
    """A watch stream whose client does not read events before `read`."""
    to_server, requests = trio.open_memory_channel[bytes](100)
    exchange = SlowExchange("POST", "/v3/watch", {}, [], requests=requests)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serving.clients[1].app, exchange)
        yield SlowClient(exchange, to_server)
        exchange.left.set()
        to_server.close()


def revisions(messages: list[dict[str, Any]]) -> list[list[int]]:
    """Those of the events of each message with events."""
    found = [one.get("result", {}).get("events", ()) for one in messages]
    return [[int(event["kv"]["mod_revision"]) for event in events] for events in found if events]


@on_cluster(**kv_setup(voters=1))
@pytest.mark.parametrize("prev_kv", [False, True])
async def test_large_values_come_in_many_messages(cluster: Cluster, prev_kv: bool) -> None:
    async with gateways(cluster) as serving, slow_client(serving) as client:
        for _ in range(12):
            execute(serving.services[1].machine, PutRequest(b"key", VALUE))
        await client.send(create(prev_kv=prev_kv))
        messages = await client.read()
        assert [one for batch in revisions(messages) for one in batch] == list(range(2, 14))
        assert len(revisions(messages)) == (12 if prev_kv else 6), "two values fit in a message"
        assert max(map(len, client.exchange.pieces)) < LIMIT


@on_cluster(**kv_setup(voters=1))
async def test_a_revision_of_any_size_is_one_message_sent_in_pieces(cluster: Cluster) -> None:
    async with gateways(cluster) as serving, slow_client(serving) as client:
        for number in range(12):
            execute(serving.services[1].machine, PutRequest(b"%d" % number, VALUE))
        execute(serving.services[1].machine, DeleteRangeRequest(b"\0", b"\0"))
        await client.send(create(prev_kv=True, start_revision=14))
        messages = await client.read()
        assert revisions(messages) == [[14] * 12]
        assert all(event["prev_kv"] for event in messages[-1]["result"]["events"])
        assert max(map(len, client.exchange.pieces)) < LIMIT


@on_cluster(**kv_setup(voters=1))
async def test_a_large_revision_comes_in_fragments_to_who_asks_for_them(cluster: Cluster) -> None:
    async with gateways(cluster) as serving, slow_client(serving) as client:
        for number in range(5):
            execute(serving.services[1].machine, PutRequest(b"%d" % number, VALUE))
        execute(serving.services[1].machine, DeleteRangeRequest(b"\0", b"\0"))
        await client.send(create(prev_kv=True, fragment=True), {"progress_request": {}})
        messages = [one["result"] for one in await client.read()][1:]
        assert [(len(one.get("events", ())), one.get("fragment", False)) for one in messages] == [
            *[(2, False)] * 2,
            (1, False),
            *[(2, True)] * 2,
            (1, False),
            (0, False),
        ]


@on_cluster(**kv_setup(voters=1))
async def test_a_client_that_does_not_read_gets_whole_messages(cluster: Cluster) -> None:
    """Whatever else is sent while one waits: the end of its own watch, the answer to a request, an error."""
    async with gateways(cluster) as serving:
        execute(serving.services[1].machine, PutRequest(b"key"))
        for rest in ({"cancel_request": {"watch_id": 0}}, create(key=b64("other")), b"nonsense"):
            async with slow_client(serving) as client:
                await client.send(create())
                assert client.exchange.is_sending
                await client.send(rest)
                assert client.exchange.is_sending, "the message was given up"
                messages = await client.read()
                assert revisions(messages) == [[2]]
                assert len(messages) == 3


@on_cluster(**kv_setup(voters=1))
async def test_a_cancelled_watch_tells_nothing_more(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "EVENTS_AT_ONCE", 3)
    async with gateways(cluster) as serving, slow_client(serving) as client:
        for _ in range(10):
            execute(serving.services[1].machine, PutRequest(b"key"))
        await client.send(create())
        await client.send({"cancel_request": {"watch_id": 0}}, {"progress_request": {}})
        messages = await client.read()
        assert revisions(messages) == [[2, 3, 4]]
        assert messages[-1]["result"]["canceled"]


@on_cluster(**kv_setup(voters=1))
async def test_a_slow_watch_is_told_of_a_compaction(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """After what was read from the store before it, and no progress is told."""
    monkeypatch.setattr(watches, "EVENTS_AT_ONCE", 3)
    async with gateways(cluster) as serving, slow_client(serving) as client:
        machine = serving.services[1].machine
        for _ in range(10):
            execute(machine, PutRequest(b"key"))
        await client.send(create(), {"progress_request": {}})
        execute(machine, CompactionRequest(9))
        messages = await client.read()
        assert revisions(messages) == [[2, 3, 4]]
        end = messages[-1]["result"]
        assert (end["canceled"], end["compact_revision"], end["header"].get("revision")) == (True, "9", None)


@on_cluster(**kv_setup(voters=1))
async def test_one_turn_sends_one_part(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many watches there are."""
    turns, sent = LoopTurns.of_this_run(), Counter[int]()
    encoded = watch_messages._encoded

    def encoding(events: tuple[Event, ...]) -> bytes:
        sent[turns.number] += 1
        return encoded(events)

    monkeypatch.setattr(watch_messages, "_encoded", encoding)
    async with gateways(cluster) as serving:
        for _ in range(6):
            execute(serving.services[1].machine, PutRequest(b"key", VALUE))
        async with slow_client(serving) as one, slow_client(serving) as other:
            await one.send(*[create()] * 3)
            await other.send(*[create()] * 2)
            one.exchange.may_read.set()
            for client in (one, other):
                assert len([each for batch in revisions(await client.read()) for each in batch]) % 6 == 0
    assert sum(sent.values()) == 5 * 3
    assert max(sent.values()) == 1


@on_cluster(**kv_setup(voters=1))
async def test_one_turn_looks_at_so_many_changes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many watches there are, and however far back they begin."""
    turns, looked_at = LoopTurns.of_this_run(), Counter[int]()

    class Reader(EventReader):
        def read(self, store: Store) -> Batch | None:
            looked_at[turns.number] += self.cost(store)
            return super().read(store)

    monkeypatch.setattr(watch_stream, "EventReader", Reader)
    async with gateways(cluster) as serving:
        machine = serving.services[1].machine
        for _ in range(2500):
            execute(machine, PutRequest(b"other"))
        execute(machine, PutRequest(b"key"))
        watch = {"create_request": {"key": b64("key"), "start_revision": 2}}
        async with serving.clients[1].stream("/v3/watch", *[watch] * 30) as messages:
            got = [(await messages.receive())["result"] for _ in range(60)]
        assert sum("events" in one for one in got) == 30
    assert sum(looked_at.values()) == 30 * 2501
    assert max(looked_at.values()) <= KEYS_PER_UNIT * UNITS_PER_TURN


@on_cluster(**kv_setup(voters=1))
async def test_one_change_wakes_many_watches_in_turns(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, read = LoopTurns.of_this_run(), Counter[int]()

    class Reader(EventReader):
        def read(self, store: Store) -> Batch | None:
            read[turns.number] += 1
            return super().read(store)

    async with gateways(cluster) as serving:
        watch = {"create_request": {"key": b64("key")}}
        async with serving.clients[1].stream("/v3/watch", *[watch] * 400) as messages:
            for _ in range(400):
                await messages.receive()
            await trio.testing.wait_all_tasks_blocked()
            monkeypatch.setattr(watch_stream, "EventReader", Reader)
            execute(serving.services[1].machine, PutRequest(b"key"))
            assert len({(await messages.receive())["result"].get("watch_id", "0") for _ in range(400)}) == 400
    assert max(read.values()) <= UNITS_PER_TURN


@on_cluster(**kv_setup(voters=1))
async def test_watches_of_other_keys_outlive_a_compaction_that_comes_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may apply any number of commands in one turn, and nobody was told of the changes before."""
    monkeypatch.setattr(change_waiters, "CHANGES_PER_TURN", 1)
    async with gateways(cluster) as serving:
        machine = serving.services[1].machine
        async with serving.clients[1].stream("/v3/watch", *[{"create_request": {"key": b64("key")}}] * 2) as messages:
            for _ in range(2):
                await messages.receive()
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(5):
                execute(machine, PutRequest(b"other"))
            execute(machine, CompactionRequest(6))
            execute(machine, PutRequest(b"key"))
            for _ in range(2):
                assert (await messages.receive())["result"]["events"][0]["kv"]["mod_revision"] == "7"


def test_a_piece_may_end_within_a_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "CHANGES_AT_ONCE", 3)
    machine = KvMachine()
    for number in range(8):
        execute(machine, PutRequest(b"%d" % number))
    execute(machine, DeleteRangeRequest(b"\0", b"\0"))
    reader, pieces = EventReader(WatchCreateRequest(b"\0", b"\0", prev_kv=True), 2), 1
    while (batch := reader.read(machine.store)) is None:
        pieces += 1
    assert pieces == 6
    assert [event.kv.mod_revision for event in batch.events if event.kv] == [*range(2, 10), *[10] * 8]
    assert all(event.prev_kv for event in batch.events[8:])
    assert batch.next_revision == 11


def test_a_compaction_within_a_revision_ends_the_watch() -> None:
    """It drops what one transaction has put and deleted, so that the other changes move up."""
    machine = KvMachine()
    for number in range(3000):
        execute(machine, PutRequest(b"k%05d" % number))
    put = RequestOp(request_txn=TxnRequest((), (RequestOp(request_put=PutRequest(b"k00000")),)))
    delete = RequestOp(request_txn=TxnRequest((), (RequestOp(request_delete_range=DeleteRangeRequest(b"k", b"l")),)))
    execute(machine, TxnRequest((), (put, delete)))
    revision = machine.store.revision
    reader = EventReader(WatchCreateRequest(b"\0", b"\0"), revision)
    assert reader.read(machine.store) is None
    assert not reader.is_compacted(machine.store)
    execute(machine, CompactionRequest(revision))
    assert reader.is_compacted(machine.store)
    later = EventReader(WatchCreateRequest(b"\0", b"\0"), revision)
    assert later.read(machine.store) is None
    assert not later.is_compacted(machine.store), "it began after the compaction"
