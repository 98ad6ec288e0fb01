"""Transactions of the key-value store at every limit and above, by a gateway, by Produce and in a replayed log."""

from __future__ import annotations

import msgpack

from kraft_trio.kv.budget import MAX_KEYS
from kraft_trio.kv.command_serde import PREFIX
from kraft_trio.kv.requests import (
    Command,
    Compare,
    CompareResult,
    DeleteRangeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
)
from scripts.attacks import kv
from scripts.attacks.arena import Arena

SETTINGS = kv.SETTINGS
VALUE_BYTES = 700_000
LARGE = b"m"
PUT = RequestOp(request_put=PutRequest(b"new"))
ALL = RequestOp(request_range=RangeRequest(kv.START, kv.END, min_mod_revision=10**9))
READ = RequestOp(request_range=RangeRequest(LARGE))
NOTHING = Compare(CompareResult.NOT_EQUAL, key=kv.START, range_end=kv.END)


def play(arena: Arena) -> None:
    """With 40,000 keys and one value of 700 KB."""
    keys = arena.count(40_000, 4_000)
    old = RequestOp(request_range=RangeRequest(kv.START, kv.END, revision=kv.revision(arena, arena.leader)))
    kv.fill(arena, keys)
    kv.ask_gateway(arena, PutRequest(LARGE, bytes(VALUE_BYTES)))
    for command in (*commands(keys), TxnRequest((), (PUT, *(old,) * 127))):
        kv.ask_gateway(arena, command)
        kv.produce(arena, [command])
    for record in records():
        kv.produce(arena, [record])
    kv.check_alike(arena)
    kv.restart_a_follower(arena)
    kv.clear(arena)


def commands(keys: int) -> list[Command]:
    looks = max(1, MAX_KEYS // keys)
    return [
        TxnRequest((), (PUT, *(ALL,) * 127)),
        TxnRequest((), (PUT, *(ALL,) * min(looks, 127))),
        TxnRequest((NOTHING,) * 127, (PUT,)),
        TxnRequest((NOTHING,) * min(looks, 127), (PUT,)),
        TxnRequest((), (PUT, *nested(4, 3, ALL))),
        TxnRequest((), (PUT, *nested(31, 1, READ)[:30])),
        TxnRequest((), (PUT, *(READ,) * 5)),
        TxnRequest((), (PUT, *(READ,) * 127)),
        TxnRequest((), tuple(RequestOp(request_put=PutRequest(b"d%d" % one, prev_kv=True)) for one in range(128))),
        TxnRequest((), tuple(map(duplicate, range(128)))),
        DeleteRangeRequest(LARGE, b"n", prev_kv=True),
        PutRequest(LARGE, bytes(VALUE_BYTES)),
    ]


def nested(width: int, levels: int, leaf: RequestOp) -> tuple[RequestOp, ...]:
    operations = (leaf,) * width
    for _ in range(levels):
        operations = (RequestOp(request_txn=TxnRequest((), operations)),) * width
    return operations


def duplicate(number: int) -> RequestOp:
    """A put and a deletion in turn, in places that do not touch."""
    if number % 2:
        return RequestOp(request_put=PutRequest(b"p%03d" % number))
    return RequestOp(request_delete_range=DeleteRangeRequest(b"d%03d" % number, b"d%03d0" % number))


def records() -> list[bytes]:
    """What no gateway sends: transactions of up to a mebibyte, which Produce takes."""
    put = [None, [b"k"]]
    return [
        PREFIX + msgpack.packb([3, [], [put] * 170_000]),
        PREFIX + msgpack.packb([3, [[]] * 1_000_000, []]),
        PREFIX + msgpack.packb([3, [], [[None, None, None, [[], [put] * 128]]] * 1000]),
        PREFIX + msgpack.packb([3, [], [[None, None, [b"d"]], put] * 9_000]),
        PREFIX + msgpack.packb([1, b"k", bytes(1_000_000)]),
    ]
