"""Ranges of all keys, lists of leases, and JSON of 4 MiB, by many clients at once."""

from __future__ import annotations

from functools import partial

from harness.node import NodeProcess
from kraft_trio.kv.proto_json import dumps
from kraft_trio.kv.requests import LeaseTimeToLiveRequest, RangeRequest, RequestOp, SortOrder, SortTarget, TxnRequest
from scripts.attacks import kv
from scripts.attacks.arena import Arena, refusable
from scripts.common.background import at_once

SETTINGS = kv.SETTINGS
CLIENTS = 6
JSON_BYTES = 4 * 1024 * 1024 - 100
EVERYTHING = RangeRequest(kv.START, kv.END)
READS = (
    RangeRequest(kv.START, kv.END, serializable=True),
    RangeRequest(kv.START, kv.END, sort_order=SortOrder.DESCEND, sort_target=SortTarget.VALUE),
    RangeRequest(kv.START, kv.END, sort_order=SortOrder.ASCEND, sort_target=SortTarget.MOD, limit=1),
    RangeRequest(kv.START, kv.END, keys_only=True, min_mod_revision=1),
    RangeRequest(kv.START, kv.END, count_only=True),
    RangeRequest(kv.START, kv.END, limit=10),
)
ELEMENTS = {
    "compare": b"{}",
    "success": b'{"request_put":{"key":"YQ=="}}',
    "failure": b'{"request_txn":{"compare":[{}]}}',
    "unknown": b"1",
}


def play(arena: Arena) -> None:
    kv.fill(arena, arena.count(100_000, 10_000))
    bodies = [("/v3/kv/range", dumps(read)) for read in READS]
    bodies.append(("/v3/lease/timetolive", dumps(LeaseTimeToLiveRequest(kv.LEASE, keys=True))))
    bodies.append(("/v3/lease/leases", b"{}"))
    operations = tuple(RequestOp(request_range=read) for read in READS)
    bodies.append(("/v3/kv/txn", dumps(TxnRequest((), operations))))
    bodies += [("/v3/kv/txn", body_of(name, element)) for name, element in ELEMENTS.items()]
    bodies.append(("/v3/kv/txn", b"[" * JSON_BYTES))
    clients = range(arena.count(CLIENTS, 2))
    at_once([partial(_ask, arena, arena.nodes[number % 3], bodies[number:] + bodies[:number]) for number in clients])
    kv.clear(arena)


def body_of(name: str, element: bytes) -> bytes:
    count = JSON_BYTES // (len(element) + 1)
    return b'{"%b":[%b]}' % (name.encode(), b",".join([element] * count))


def _ask(arena: Arena, node: NodeProcess, bodies: list[tuple[str, bytes]]) -> None:
    for path, body in bodies:
        with refusable():
            kv.ask(arena, node, path, body)
