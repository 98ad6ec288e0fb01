"""Random requests to the key-value store.  They use few keys, so that they concern each other."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

import attrs

from scripts.etcd_differences.json_styles import Enum, JsonStyle

KEYS = ("a", "a", "b", "b", "ba", "c", "d", "e", "\xff")
ENDS = ("", "", "\0", "b", "c", "f", "a", "\xff\xff")
VALUES: tuple[str | bytes, ...] = ("", "1", "1", "2", "22", b"\xff\xfe\xfd", "v" * 100)
LEASES = (1, 2, 3, 4)
ORDERS = ("NONE", "ASCEND", "DESCEND")
TARGETS = ("KEY", "VERSION", "CREATE", "MOD", "VALUE")
COMPARED = {
    "VERSION": "version",
    "CREATE": "create_revision",
    "MOD": "mod_revision",
    "VALUE": "value",
    "LEASE": "lease",
}
RESULTS = ("EQUAL", "GREATER", "LESS", "NOT_EQUAL")
FILTERS = ("NOPUT", "NODELETE")
DAMAGED = 0.12
"""The part of the requests that are no messages, or may be none."""
PATHS = (
    *(
        "/v3/kv/range",
        "/v3/kv/nothing",
        "/v3/",
        "/v3",
        "/",
        "/nothing",
        "/health",
        "/health?serializable=true",
        "/livez",
    ),
    *(
        "/readyz",
        "/livez?verbose",
        "/readyz/linearizable_read",
        "/readyz/nothing",
        "/livez/data_corruption",
        "/version",
    ),
    *("/v3beta/kv/range", "/v3/watch", "/v3/lease/leases", "/v3/kv/range/", "/readyz?exclude=linearizable_read"),
)
METHODS = ("GET", "GET", "GET", "POST", "PUT", "DELETE", "PATCH")


@attrs.frozen
class Ask:
    """One request of HTTP."""

    path: str
    body: bytes = b""
    method: str = "POST"
    is_damaged: bool = False
    """Whether it may be no message."""

    @property
    def only_reads(self) -> bool:
        """Whether it changes no store, whoever accepts it."""
        return not self.path.endswith(("/put", "/deleterange", "/txn", "/compaction", "/grant", "/revoke"))

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.body.decode(errors='replace')}"


class RequestMaker:
    """Makes requests, given what the stores have by now."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.revision = 1
        """The newest one that an answer has named."""
        self.compacted = 0

    def next(self) -> Ask:
        """The next request that has one answer."""
        if self._chance.random() < 0.04:
            path = self._chance.choice(PATHS)
            return Ask(path, b"{}", "GET" if path == "/v3/watch" else self._chance.choice(METHODS))
        [(path, make)] = self._chance.choices(list(self._makers), list(self._makers.values()))
        is_damaged = self._chance.random() < DAMAGED
        if not is_damaged and self._chance.random() < 0.01:
            return Ask(path)
        message = make(self)
        prefix = "/v3beta" if self._chance.random() < 0.02 else "/v3"
        return Ask(prefix + path, self._written(message, is_damaged=is_damaged), is_damaged=is_damaged)

    def watch(self) -> Ask:
        """A stream of requests to watch."""
        messages = []
        for _ in range(self._chance.randint(1, 3)):
            messages.append({"create_request": self._watch_create()})
            if self._chance.random() < 0.2:
                messages.append({"cancel_request": {"watch_id": self._chance.choice((0, 1, 7, 99))}})
            if self._chance.random() < 0.1:
                messages.append({})
        if self._chance.random() < 0.3:
            messages.append({"progress_request": {}})
        return Ask("/v3/watch", b"".join(self._written(message, is_damaged=False) for message in messages))

    def keep_alive(self) -> Ask:
        """A stream of renewals of leases."""
        messages = [{"ID": self._lease()} for _ in range(self._chance.randint(0, 3))]
        return Ask("/v3/lease/keepalive", b"".join(self._written(one, is_damaged=False) for one in messages))

    def _written(self, message: dict[str, Any], *, is_damaged: bool) -> bytes:
        return JsonStyle(self._chance, is_damaged=is_damaged).text(message).encode()

    def _some(self, **fields: Callable[[], Any]) -> dict[str, Any]:
        """Some of the fields, each with a value."""
        return {name: make() for name, make in fields.items() if self._chance.random() < 0.3}

    def _key(self) -> str:
        return "" if self._chance.random() < 0.02 else self._chance.choice(KEYS)

    def _end(self) -> str:
        return self._chance.choice(ENDS)

    def _value(self) -> str | bytes:
        return self._chance.choice(VALUES)

    def _truth(self) -> bool:
        return self._chance.random() < 0.7

    def _lease(self) -> int:
        return self._chance.choice((*LEASES, 0, -3, 99))

    def _a_revision(self) -> int:
        near = self.revision + self._chance.randint(-20, 1)
        return self._chance.choice((0, near, near, near, self.compacted, self.compacted + 1, self.revision, -1, 10**9))

    def _enum(self, names: tuple[str, ...]) -> Enum:
        return Enum.of("NEW" if self._chance.random() < 0.03 else self._chance.choice(names), names)

    def _range(self) -> dict[str, Any]:
        return {
            "key": self._key(),
            "range_end": self._end(),
            **self._some(
                limit=lambda: self._chance.choice((0, 1, 2, 3, -1)),
                revision=self._a_revision,
                sort_order=lambda: self._enum(ORDERS),
                sort_target=lambda: self._enum(TARGETS),
                serializable=self._truth,
                keys_only=self._truth,
            ),
            **(self._some(count_only=self._truth) if self._chance.random() < 0.3 else {}),
            **(
                self._some(
                    min_mod_revision=self._a_revision,
                    max_mod_revision=self._a_revision,
                    min_create_revision=self._a_revision,
                    max_create_revision=self._a_revision,
                )
                if self._chance.random() < 0.3
                else {}
            ),
        }

    def _put(self) -> dict[str, Any]:
        put = {"key": self._key(), "value": self._value(), **self._some(lease=self._lease, prev_kv=self._truth)}
        if self._chance.random() < 0.15:
            put |= self._some(ignore_value=self._truth, ignore_lease=self._truth)
            if self._chance.random() < 0.7:
                del put["value"]
        return put

    def _delete(self) -> dict[str, Any]:
        end = self._end() if self._chance.random() < 0.4 else ""
        return {"key": self._key(), "range_end": end, **self._some(prev_kv=self._truth)}

    def _compare(self) -> dict[str, Any]:
        target = self._chance.choice(list(COMPARED))
        compare: dict[str, Any] = {"key": self._key(), **self._some(range_end=self._end)}
        if target != "VERSION" or self._truth():
            compare["target"] = Enum.of(target, tuple(COMPARED))
        if self._truth():
            compare["result"] = Enum.of(self._chance.choice(RESULTS), RESULTS)
        given = target if self._chance.random() < 0.95 else self._chance.choice(list(COMPARED))
        if self._chance.random() < 0.9:
            values = {"VERSION": lambda: self._chance.randint(0, 3), "VALUE": self._value, "LEASE": self._lease}
            compare[COMPARED[given]] = values.get(given, self._a_revision)()
        return compare

    def _operation(self, depth: int) -> dict[str, Any]:
        kind = self._chance.random()
        if kind < 0.4:
            return {"request_put": self._put()}
        if kind < 0.7:
            return {"request_range": self._range()}
        if kind < 0.85:
            # etcd misses that what it deletes from a key to the end may be put.
            end = self._chance.choice([end for end in ENDS if end != "\0"])
            return {"request_delete_range": {**self._delete(), "range_end": end}}
        if kind < 0.98:
            return {"request_txn": self._txn(depth + 1)} if depth < 3 else {"request_range": self._range()}
        return self._chance.choice([{}, {"request_put": self._put(), "request_range": self._range()}])

    def _txn(self, depth: int = 0) -> dict[str, Any]:
        few = (0, 1, 1, 2, 3)
        lists = {
            "compare": [self._compare() for _ in range(self._chance.choice((0, 0, 1, 1, 2)))],
            "success": [self._operation(depth) for _ in range(self._chance.choice(few))],
            "failure": [self._operation(depth) for _ in range(self._chance.choice(few))],
        }
        return {name: one for name, one in lists.items() if one or self._chance.random() < 0.1}

    def _compaction(self) -> dict[str, Any]:
        revision = self._chance.choice((self.revision - 30, self.revision - 30, self.compacted, self.revision + 5, -1))
        return {"revision": revision, **self._some(physical=self._truth)}

    def _grant(self) -> dict[str, Any]:
        ttl = self._chance.choice((60, 600, 3600, 9_000_000_001))
        return {"TTL": ttl, "ID": self._chance.choice((*LEASES, *LEASES, 0))}

    def _watch_create(self) -> dict[str, Any]:
        return {
            "key": self._key(),
            "range_end": self._end(),
            **self._some(
                start_revision=self._a_revision,
                prev_kv=self._truth,
                progress_notify=self._truth,
                fragment=self._truth,
                filters=lambda: [self._enum(FILTERS) for _ in range(self._chance.randint(0, 2))],
            ),
            **(self._some(watch_id=lambda: self._chance.choice((0, 1, 7, -7))) if self._truth() else {}),
        }

    _makers: ClassVar[dict[tuple[str, Callable[[RequestMaker], dict[str, Any]]], int]] = {
        ("/kv/range", _range): 30,
        ("/kv/put", _put): 28,
        ("/kv/deleterange", _delete): 6,
        ("/kv/txn", _txn): 28,
        ("/kv/compaction", _compaction): 1,
        ("/lease/grant", _grant): 4,
        ("/lease/revoke", lambda self: {"ID": self._lease()}): 2,
        ("/kv/lease/revoke", lambda self: {"ID": self._lease()}): 1,
        ("/lease/timetolive", lambda self: {"ID": self._lease(), **self._some(keys=self._truth)}): 3,
        ("/lease/leases", lambda self: {}): 1,
        ("/auth/authenticate", lambda self: {}): 1,
    }
