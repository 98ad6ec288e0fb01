"""What attacks on the key-value store have in common: its quorum, its keys, and both ways to it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from harness.node import NodeProcess
from harness.waiting import wait_until
from kraft_trio.kv.command_serde import CommandSerde
from kraft_trio.kv.proto_json import dumps
from kraft_trio.kv.requests import (
    Command,
    CompactionRequest,
    DeleteRangeRequest,
    LeaseGrantRequest,
    LeaseRevokeRequest,
    PutRequest,
    RangeRequest,
    TxnRequest,
)
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from scripts.attacks.arena import HANG_S, Arena, refusable
from scripts.attacks.quorum import KV, WITH_KEYS
from scripts.attacks.requests import produce_frame

SETTINGS: Final = {"kraft.state.machine": "kv", WITH_KEYS[KV]: ""}
START: Final = b"k"
END: Final = b"l"
RECORDS_PER_BATCH: Final = 5000
LEASE: Final = 77
REPLAY_S: Final = 300.0
"""For a log of half a million commands, on a machine that has other work."""
_PATHS: Final = {
    RangeRequest: "/v3/kv/range",
    PutRequest: "/v3/kv/put",
    TxnRequest: "/v3/kv/txn",
    DeleteRangeRequest: "/v3/kv/deleterange",
    CompactionRequest: "/v3/kv/compaction",
    LeaseRevokeRequest: "/v3/lease/revoke",
}
_serde = CommandSerde()


def ask(arena: Arena, node: NodeProcess, path: str, body: bytes, seconds: float = HANG_S) -> tuple[int, bytes]:
    """Send one request to a node's gateway, and read its answer piece by piece without keeping much of it."""
    endpoint = arena.endpoint(KV, node)
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=seconds)
    arena.sent.frames += 1
    arena.sent.bytes += len(body)
    try:
        connection.request("POST", path, body)
        response = connection.getresponse()
        first = response.read(64 * 1024)
        while response.read(1024 * 1024):
            pass
        return response.status, first
    finally:
        connection.close()


def ask_gateway(arena: Arena, command: Any, node: NodeProcess | None = None) -> int:
    """Send a request to the gateway of the leader, or of another node; return the HTTP status."""
    return ask(arena, node or arena.leader, _PATHS[type(command)], dumps(command))[0]


def insist(arena: Arena, command: Any) -> None:
    """Send a request to the leader's gateway until it is accepted.  Raises Overdue."""

    def is_accepted() -> bool:
        with refusable():
            return ask_gateway(arena, command) == 200
        return False

    wait_until(f"{type(command).__name__} is accepted", is_accepted, HANG_S)


def produce(arena: Arena, commands: Sequence[Command | bytes]) -> None:
    """Write commands to the topic, as a client of the nodes can, in one batch."""
    values = [command if isinstance(command, bytes) else _serde.encode(command) for command in commands]
    batch = encode_batch([NewRecord(value) for value in values], timestamp_ms=int(time.time() * 1000))
    assert arena.send(produce_frame(batch), seconds=60), "the batch was not answered"


def fill(arena: Arena, keys: int, value: bytes = b"v", lease: int = LEASE) -> None:
    """Put keys below START, with a lease unless it is 0, and wait until all nodes have them."""
    if lease:
        produce(arena, [LeaseGrantRequest(10**6, lease)])
    for start in range(0, keys, RECORDS_PER_BATCH):
        numbers = range(start, min(start + RECORDS_PER_BATCH, keys))
        produce(arena, [PutRequest(START + b"%07d" % number, value, lease) for number in numbers])
    wait_until_applied(arena)
    assert count(arena, arena.leader) == keys, "the keys were put"


def count(arena: Arena, node: NodeProcess) -> int:
    """How many keys there are below START."""
    status, answer = ask(arena, node, "/v3/kv/range", dumps(RangeRequest(START, END, count_only=True)))
    return int(json.loads(answer).get("count", 0)) if status == 200 else -1


def revision(arena: Arena, node: NodeProcess) -> int:
    """The revision of the state that a linearizable read sees."""
    return int(json.loads(ask(arena, node, "/v3/kv/range", dumps(RangeRequest(b"x")))[1])["header"]["revision"])


def wait_until_applied(arena: Arena) -> None:
    """Until every gateway has executed all that was committed before."""
    for node in arena.nodes:
        wait_until(f"node {node.id} has applied everything", lambda node=node: count(arena, node) >= 0, HANG_S)  # type: ignore[misc]


def check_alike(arena: Arena) -> None:
    """All nodes have the same revision and as many keys."""
    wait_until_applied(arena)
    states = {(revision(arena, node), count(arena, node)) for node in arena.nodes}
    assert len(states) == 1, f"the nodes differ: revisions and keys {sorted(states)}"


def restart_a_follower(arena: Arena) -> None:
    """It applies the whole log again."""
    follower = arena.followers[0]
    follower.kill()
    arena.start_again(follower)
    wait_until(f"node {follower.id} answers", lambda: _is_answered(arena, follower), REPLAY_S)
    check_alike(arena)


def _is_answered(arena: Arena, node: NodeProcess) -> bool:
    try:
        return count(arena, node) >= 0
    except OSError:
        return False


def clear(arena: Arena, commands: Iterable[Command] = ()) -> None:
    """Delete all keys and forget their versions, so that the next attack finds an empty store."""
    for command in (*commands, DeleteRangeRequest(b"\0", b"\0")):
        ask_gateway(arena, command)
    ask_gateway(arena, CompactionRequest(revision(arena, arena.leader)))
    check_alike(arena)
