"""A conversation with etcd's JSON gateway, and the answers that etcd gave.

`python -m tests.kv.etcd_conversation http://127.0.0.1:2379` talks to an empty etcd (3.7) and writes
tests/data/etcd-answers.json; test_etcd_answers.py has the same conversation with a gateway of ours.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.kv.gateways import b64

ANSWERS = Path(__file__).parents[1] / "data" / "etcd-answers.json"

OWN_WORDS = "own words"
"""Marks requests that are refused with the same code, and a message of our own."""

A, B, Z, ALL = b64("a"), b64("b"), b64("z"), b64("\0")
A_TO_Z = {"key": A, "range_end": Z}


def put(key: str, **fields: object) -> tuple[str, dict[str, object]]:
    return "/v3/kv/put", {"key": b64(key), **fields}


def a_range(**fields: object) -> tuple[str, dict[str, object]]:
    return "/v3/kv/range", {**A_TO_Z, **fields}


def txn(*compare: object, success: object = (), failure: object = ()) -> tuple[str, dict[str, object]]:
    return "/v3/kv/txn", {"compare": compare, "success": success, "failure": failure}


def when(key: str, target: str, result: str = "EQUAL", **value: object) -> dict[str, object]:
    return {"key": b64(key), "target": target, "result": result, **value}


def put_op(key: str, **fields: object) -> dict[str, object]:
    return {"request_put": {"key": b64(key), **fields}}


def get_op(key: str, **fields: object) -> dict[str, object]:
    return {"request_range": {"key": b64(key), **fields}}


def delete_op(key: str, **fields: object) -> dict[str, object]:
    return {"request_delete_range": {"key": b64(key), **fields}}


def txn_op(*compare: object, success: object = (), failure: object = ()) -> dict[str, object]:
    return {"request_txn": {"compare": compare, "success": success, "failure": failure}}


LEADER = {"name": b64("el"), "key": b64("el/c8"), "rev": "22", "lease": "200"}

CONVERSATION: list[tuple[Any, ...]] = [
    put("a", value=b64("1")),
    put("a", value=b64("2"), prev_kv=True),
    put("a", value=b64("2"), prevKv=True),
    put(""),
    put("a", ignore_value=True),
    put("zz", ignore_value=True),
    put("zz", ignore_lease=True),
    put("a", value=b64("x"), ignore_value=True),
    put("a", lease="7", ignore_lease=True),
    put("a", lease="77"),
    put("a", lease=77),
    put("zz", lease=77, ignore_value=True),
    put("b", value=""),
    put("a", unknown={"x": [1]}, value=None),
    ("/v3/kv/put", {"key": "enp6eg", "value": "_-8"}),
    ("/v3/kv/range", {"key": "YWJj\r\nYWJj\r\nYWJj"}),
    ("/v3/kv/range", {"key": "YWJj\nYQ=="}, OWN_WORDS),
    ("/v3/kv/put", {"key": 5}, OWN_WORDS),
    ("/v3/kv/put", {"key": A, "lease": "x"}, OWN_WORDS),
    ("/v3/kv/put", {"key": A, "lease": 2**63}, OWN_WORDS),
    ("/v3/kv/put", b"{", OWN_WORDS),
    ("/v3/kv/put", b"[]", OWN_WORDS),
    ("/v3/kv/put", b""),
    a_range(),
    a_range(limit=1),
    a_range(limit="1", count_only=True),
    a_range(limit=-1),
    a_range(keys_only=True, sort_order="DESCEND", sort_target="MOD"),
    a_range(sort_order=1, sort_target=4),
    a_range(sort_target="MOD"),
    a_range(sort_target="MOD", limit=1),
    a_range(sort_order="UP"),
    (*a_range(sort_order=7), OWN_WORDS),
    ("/v3/kv/range", b'{"key":"YQ==","limit":1e0,"revision":"2.0"}'),
    ("/v3/kv/range", b'{"key":"YQ==","limit":"1_0"}', OWN_WORDS),
    ("/v3/kv/range", b'{"key":"YQ==","limit":"+5"}', OWN_WORDS),
    ("/v3/kv/range", b'{"key":"YQ==","key":"Yg=="}', OWN_WORDS),
    ("/v3/kv/range", b'{"key":"YQ==","u":1,"u":2}'),
    ("/v3/kv/range", b'{"key":"YQ==","u":NaN}', OWN_WORDS),
    a_range(limit=1, max_mod_revision=3),
    a_range(min_mod_revision=7),
    a_range(max_create_revision=2),
    a_range(revision=2),
    a_range(revision=-2),
    a_range(revision=200),
    a_range(revision=1),
    a_range(serializable=True),
    a_range(key=Z, range_end=A),
    a_range(range_end=ALL),
    a_range(key=ALL, range_end=ALL, keys_only=True),
    a_range(key=""),
    ("/v3/kv/range", {"key": b64("nothing")}),
    ("/v3/kv/deleterange", {"key": B, "prev_kv": True}),
    ("/v3/kv/deleterange", {"key": B, "prev_kv": True}),
    ("/v3/kv/deleterange", {"key": ""}),
    txn(
        when("a", "VALUE", value=b64("")),
        success=[put_op("a", value=b64("3"), prev_kv=True), get_op("a")],
        failure=[get_op("b")],
    ),
    txn(when("a", "VALUE", value=b64("2")), success=[put_op("a")], failure=[get_op("a")]),
    txn(
        when("a", "VERSION", "GREATER", version="1"),
        success=[delete_op("a"), get_op("a"), delete_op("nope"), put_op("c", value=b64("1"))],
    ),
    txn(
        when("a", "CREATE", create_revision=0),
        success=[txn_op(success=[put_op("d", value=b64("1")), put_op("e")]), get_op("d")],
    ),
    txn(when("a", "CREATE", "NOT_EQUAL", range_end=Z, create_revision=0)),
    txn(when("a", "MOD", "GREATER", range_end=Z, mod_revision=9)),
    txn(when("nope", "VALUE", "NOT_EQUAL", value=b64("1"))),
    txn(when("nope", "VALUE", value="")),
    txn(when("nope", "VERSION", "LESS", version=1)),
    txn(when("nope", "LEASE")),
    txn(when("c", "VERSION", value=b64("1"))),
    txn(when("", "VERSION")),
    txn(success=[{}]),
    (*txn(success=[{**get_op("a"), **delete_op("a")}]), OWN_WORDS),
    (*txn({**when("a", "VERSION", version="1"), "lease": "1"}), OWN_WORDS),
    txn(success=[put_op("c"), put_op("c")]),
    txn(success=[put_op("c"), delete_op("a", range_end=Z)]),
    txn(success=[put_op("c"), txn_op(success=[put_op("c")])]),
    txn(success=[put_op("c"), txn_op(failure=[delete_op("c")])]),
    txn(success=[txn_op(success=[put_op("c")], failure=[put_op("c")])]),
    txn(success=[delete_op("c"), delete_op("a", range_end=Z)]),
    txn(success=[put_op("new", lease=99)]),
    txn(success=[put_op("new"), get_op("new", revision=100)]),
    txn(success=[put_op("new", ignore_value=True)]),
    txn(success=[put_op(f"k{number}") for number in range(129)]),
    txn(),
    ("/v3/kv/compaction", {"revision": 5}),
    ("/v3/kv/compaction", {"revision": 5}),
    ("/v3/kv/compaction", {"revision": 500}),
    ("/v3/kv/compaction", {"revision": 0}),
    a_range(revision=4),
    a_range(revision=5),
    txn(success=[get_op("a", revision=3)]),
    ("/v3/lease/grant", {"TTL": 1, "ID": 123}),
    ("/v3/lease/grant", {"TTL": 10, "ID": "123"}),
    ("/v3/lease/grant", {"TTL": -5, "ID": 125}),
    ("/v3/lease/grant", {"TTL": "9000000001", "ID": 126}),
    ("/v3/lease/grant", {"TTL": 60, "ID": -3}),
    ("/v3/lease/grant", {"TTL": 60, "ID": 127}),
    put("l1", lease=127),
    put("l2", lease="127"),
    put("l2", ignore_lease=True, value=b64("v")),
    ("/v3/kv/range", {"key": b64("l2")}),
    ("/v3/lease/timetolive", {"ID": 127, "keys": True}),
    ("/v3/kv/lease/timetolive", {"ID": 127}),
    ("/v3/lease/timetolive", {"ID": 1279}),
    ("/v3/lease/keepalive", {"ID": 127}),
    ("/v3/lease/keepalive", {"ID": 1270}),
    ("/v3/lease/keepalive", b'{"ID":127}{"ID":-3}'),
    ("/v3/lease/revoke", {"ID": 127}),
    ("/v3/lease/revoke", {"ID": 127}),
    ("/v3/kv/lease/revoke", {"ID": 123}),
    ("/v3/lease/revoke", {"ID": 125}),
    ("/v3/lease/leases", {}),
    ("/v3/kv/range", {"key": b64("l2")}),
    ("/v3/auth/authenticate", {"name": "a", "password": "b"}),
    ("/v3/maintenance/alarm", {}),
    ("/v3beta/kv/range", {"key": A}),
    ("/v3/lease/grant", {"TTL": 60, "ID": 200}),
    ("/v3/lock/lock", {"name": b64("lock"), "lease": 200}),
    ("/v3/lock/lock", {"name": b64("lock"), "lease": 200}),
    ("/v3/lock/lock", {"name": b64("lock"), "lease": 999}),
    ("/v3/lock/unlock", {"key": b64("lock/c8")}),
    ("/v3/lock/unlock", {"key": b64("lock/c8")}),
    put("filler"),
    ("/v3/election/leader", {"name": b64("el")}),
    ("/v3/election/campaign", {"name": b64("el"), "lease": 200, "value": b64("v1")}),
    ("/v3/election/leader", {"name": b64("el")}),
    ("/v3/election/proclaim", {"leader": LEADER, "value": b64("v3")}),
    ("/v3/election/proclaim", {"leader": {**LEADER, "rev": "1"}, "value": b64("v3")}),
    ("/v3/election/proclaim", {"value": b64("v3")}),
    ("/v3/election/resign", {"leader": LEADER}),
    ("/v3/election/resign", {"leader": LEADER}),
    ("/v3/election/resign", {}),
    ("/v3/election/leader", {"name": b64("el")}),
    ("/v3/election/campaign", {"name": b64("el"), "lease": 999, "value": b64("v1")}),
]

WATCHES: list[tuple[dict[str, object], int]] = [
    ({**A_TO_Z, "start_revision": 8, "prev_kv": True}, 2),
    ({**A_TO_Z, "start_revision": "8", "filters": ["NOPUT"]}, 2),
    ({**A_TO_Z, "start_revision": 10, "filters": ["NODELETE"]}, 2),
    ({"key": A, "start_revision": 2}, 2),
    ({"key": A, "start_revision": 2000, "watch_id": 5}, 1),
    ({"key": A, "start_revision": -1}, 1),
    ({"key": A, "watch_id": -7, "filters": ["NEW"]}, 1),
    ({"key": ""}, 1),
    ({"key": Z, "range_end": A}, 1),
]
"""What is watched afterwards, and the number of messages that then come."""


def comparable(path: str, answer: Any, *more: str) -> Any:
    """An answer without what depends on the cluster, the time, or the order of a set."""
    if isinstance(answer, list):
        return [comparable(path, one, *more) for one in answer]
    answer = dict(answer)
    if "result" in answer:
        answer["result"] = comparable(path, answer["result"])
    if "header" in answer:
        answer["header"] = {"revision": answer["header"].get("revision")}
    if "message" in answer:
        answer.pop("error", None)  # older gateways have it, and so has ours
    if path.endswith("timetolive") and int(answer.get("TTL", 0)) > 0:
        answer["TTL"] = "some"
    for name in ("keys", "leases"):
        if name in answer:
            answer[name] = sorted(answer[name], key=str)
    if OWN_WORDS in more:
        answer = {"code": answer.get("code")}
    return answer


def _ask(url: str, path: str, body: object) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=10) as answer:
            return answer.status, [json.loads(line) for line in answer.read().splitlines()]
    except urllib.error.HTTPError as error:
        return error.code, [json.loads(error.read())]


def _watch(url: str, create: object, count: int) -> list[Any]:
    body = json.dumps({"create_request": create}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v3/watch", body), timeout=10) as answer:
        return [json.loads(answer.readline()) for _ in range(count)]


def record(url: str) -> None:
    """Write what an etcd answers."""
    answers = []
    for path, body, *more in CONVERSATION:
        status, answer = _ask(url, path, body)
        answers.append([status, comparable(path, answer, *more)])
    watches = [comparable("/v3/watch", _watch(url, create, count)) for create, count in WATCHES]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in answers)
    watch_lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in watches)
    ANSWERS.write_text(f'{{"answers":[\n{lines}\n],\n"watches":[\n{watch_lines}\n]}}\n')


if __name__ == "__main__":
    record(sys.argv[1])
