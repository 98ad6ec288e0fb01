"""What answers take until they are sent is limited: by what they copy, how many are made at once, and how many wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.kv import KvMachine, range_reads
from kraft_trio.kv.budget import KEYS_PER_PIECE
from kraft_trio.kv.gateway.read_turns import LARGE_READS, ReadTurns, asker
from kraft_trio.kv.proto_json import dump_chunks, dumps
from kraft_trio.kv.range_reads import read_range
from kraft_trio.kv.requests import PutRequest, RangeRequest
from kraft_trio.kv.responses import KeyValue
from kraft_trio.simulation import Cluster
from tests.kv.gateways import FakeExchange, gateways, kv_setup
from tests.kv.machines import execute
from tests.support.on_cluster import on_cluster

COUNT = 2 * KEYS_PER_PIECE
KEYS = RangeRequest(b"\0", b"\0", keys_only=True, serializable=True)


def fill(machine: KvMachine) -> None:
    for number in range(COUNT):
        execute(machine, PutRequest(b"%06d" % number, b"value"))


def test_a_range_without_values_makes_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each took ten times what a key takes in another answer."""
    machine = KvMachine()
    fill(machine)
    made = list[KeyValue]()

    def noting(*fields: Any) -> KeyValue:
        made.append(KeyValue(*fields))
        return made[-1]

    with monkeypatch.context() as patched:
        patched.setattr(range_reads, "KeyValue", noting)
        response = read_range(machine.store, KEYS)
        next(dump_chunks(response))
        assert len(made) < COUNT
    whole = read_range(machine.store, RangeRequest(b"\0", b"\0"))
    assert [kv.key for kv in response.kvs] == [kv.key for kv in whole.kvs]
    assert not any(kv.value for kv in response.kvs)
    assert response.kvs[1].key == response.kvs[1:][0].key == b"000001"


@on_cluster(**kv_setup(voters=1))
async def test_a_long_answer_counts_as_memory_of_its_connection(cluster: Cluster) -> None:
    async with gateways(cluster) as serving:
        fill(serving.services[1].machine)
        exchange = FakeExchange("POST", "/v3/kv/range", {}, [dumps(KEYS)])
        await serving.clients[1].app(exchange)
        assert (exchange.status, exchange.held) == (200, 8 * COUNT)


async def test_an_address_has_few_large_reads_at_once(nursery: trio.Nursery) -> None:
    turns = ReadTurns()
    nursery.start_soon(turns.run)
    begun = Counter[str]()
    may_end = False

    def reading(host: str) -> Iterator[None]:
        begun[host] += 1
        while not may_end:
            yield

    async def read(host: str, keys: int) -> None:
        asker.set(host)
        await turns.finish(reading(host), keys)  # type: ignore[arg-type]

    async with trio.open_nursery() as readers:
        for _ in range(3 * LARGE_READS):
            readers.start_soon(partial(read, "a", KEYS_PER_PIECE + 1))
        readers.start_soon(partial(read, "b", KEYS_PER_PIECE + 1))
        readers.start_soon(partial(read, "c", 1))
        for _ in range(50):
            await trio.lowlevel.checkpoint()
        assert begun == {"a": LARGE_READS, "b": 1, "c": 1}
        may_end = True
    assert begun["a"] == 3 * LARGE_READS
