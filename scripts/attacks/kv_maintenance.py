"""Deletions, leases and compactions of 200,000 keys, by a gateway, by Produce and in a replayed log."""

from __future__ import annotations

from kraft_trio.kv.budget import MAX_KEYS
from kraft_trio.kv.requests import (
    Advance,
    CompactionRequest,
    DeleteRangeRequest,
    LeaseGrantRequest,
    LeaseRevokeRequest,
    PutRequest,
    RequestOp,
    TxnRequest,
)
from scripts.attacks import kv
from scripts.attacks.arena import Arena

SETTINGS = kv.SETTINGS
LEASES = 20_000


def play(arena: Arena) -> None:
    """Each leaves as many old versions as there were keys, and the compaction removes them."""
    keys = arena.count(200_000, 10_000)
    everything = DeleteRangeRequest(kv.START, kv.END)
    in_transaction = TxnRequest(
        (), (RequestOp(request_delete_range=everything), RequestOp(request_put=PutRequest(b"a")))
    )
    for way, command in enumerate((LeaseRevokeRequest(kv.LEASE), everything, in_transaction)):
        kv.fill(arena, min(keys, MAX_KEYS) if command is in_transaction else keys, lease=kv.LEASE + way)
        if isinstance(command, LeaseRevokeRequest):
            kv.ask_gateway(arena, command)
        else:
            kv.produce(arena, [command])
        kv.check_alike(arena)
        assert kv.count(arena, arena.leader) == 0, "the keys were deleted"
        compaction = CompactionRequest(kv.revision(arena, arena.leader))
        if way % 2:
            kv.produce(arena, [compaction])
        else:
            kv.ask_gateway(arena, compaction)
        kv.check_alike(arena)
    _end_many_leases(arena)
    kv.restart_a_follower(arena)
    kv.clear(arena)


def _end_many_leases(arena: Arena) -> None:
    """Leases with a key each, which end at once because a client's record sets the time ahead."""
    ids = range(1000, 1000 + arena.count(LEASES, 1000))
    for start in range(0, len(ids), kv.RECORDS_PER_BATCH):
        some = ids[start : start + kv.RECORDS_PER_BATCH]
        kv.produce(arena, [LeaseGrantRequest(2, lease) for lease in some])
        kv.produce(arena, [PutRequest(kv.START + b"%d" % lease, lease=lease) for lease in some])
    kv.produce(arena, [Advance(10**9)])
    kv.produce(arena, [Advance(2 * 10**9)])
    kv.check_alike(arena)
    assert kv.count(arena, arena.leader) == 0, "the leases have ended"
