"""The key-value store in its simplest form: a dictionary for each revision."""

from __future__ import annotations

import attrs

from kraft_trio.kv.requests import (
    Compare,
    CompareResult,
    CompareTarget,
    RangeRequest,
    RequestOp,
    SortOrder,
    SortTarget,
    TxnRequest,
)
from kraft_trio.kv.responses import KeyValue

State = dict[bytes, KeyValue]


class Refused(Exception):
    pass


@attrs.define
class Model:
    """`states` has the state after each revision."""

    states: dict[int, State] = attrs.field(factory=lambda: {1: {}})
    compacted: int = 0
    leases: set[int] = attrs.field(factory=set)

    @property
    def revision(self) -> int:
        return max(self.states)

    @property
    def present(self) -> State:
        return self.states[self.revision]

    def commit(self, state: State) -> None:
        if state != self.present:
            self.states[self.revision + 1] = state

    def put(self, state: State, key: bytes, value: bytes, lease: int) -> None:
        if lease and lease not in self.leases:
            raise Refused
        old = state.get(key)
        revision = self.revision + 1
        created, version = (revision, 1) if old is None else (old.create_revision, old.version + 1)
        state[key] = KeyValue(key, created, revision, version, value, lease)

    def txn(self, request: TxnRequest) -> None:
        state = dict(self.present)
        self._run(state, request)
        self.commit(state)

    def _run(self, state: State, request: TxnRequest) -> None:
        taken = request.success if all(map(self.holds, request.compare)) else request.failure
        for operation in taken:
            self._operate(state, operation)

    def _operate(self, state: State, operation: RequestOp) -> None:
        if (put := operation.request_put) is not None:
            self.put(state, put.key, put.value, put.lease)
        if (delete := operation.request_delete_range) is not None:
            for key in within(state, delete.key, delete.range_end):
                del state[key]
        if (nested := operation.request_txn) is not None:
            self._run(state, nested)

    def holds(self, compare: Compare) -> bool:
        found = [self.present[key] for key in within(self.present, compare.key, compare.range_end)]
        if not found and compare.target is CompareTarget.VALUE:
            return False
        pairs = {
            CompareTarget.VERSION: [(kv.version, compare.version) for kv in found or [KeyValue()]],
            CompareTarget.CREATE: [(kv.create_revision, compare.create_revision) for kv in found or [KeyValue()]],
            CompareTarget.MOD: [(kv.mod_revision, compare.mod_revision) for kv in found or [KeyValue()]],
            CompareTarget.VALUE: [(kv.value, compare.value) for kv in found],
            CompareTarget.LEASE: [(kv.lease, compare.lease) for kv in found or [KeyValue()]],
        }[compare.target]
        signs = [(a > b) - (a < b) for a, b in pairs]  # type: ignore[operator]
        wanted = {
            CompareResult.EQUAL: {0},
            CompareResult.GREATER: {1},
            CompareResult.LESS: {-1},
            CompareResult.NOT_EQUAL: {-1, 1},
        }[compare.result]
        return all(sign in wanted for sign in signs)

    def end_lease(self, lease: int) -> None:
        self.leases.discard(lease)
        self.commit({key: kv for key, kv in self.present.items() if kv.lease != lease})

    def compact(self, revision: int) -> None:
        if not self.compacted < revision <= self.revision:
            raise Refused
        self.compacted = revision

    def range(self, request: RangeRequest) -> tuple[list[KeyValue], bool, int]:
        revision = request.revision if request.revision > 0 else self.revision
        if revision > self.revision or revision < self.compacted:
            raise Refused
        state = self.states[revision]
        found = [state[key] for key in within(state, request.key, request.range_end)]
        count = len(found)
        if request.count_only:
            return [], False, count
        found = [
            kv
            for kv in found
            if kv.mod_revision >= request.min_mod_revision
            and kv.create_revision >= request.min_create_revision
            and kv.mod_revision <= (request.max_mod_revision or kv.mod_revision)
            and kv.create_revision <= (request.max_create_revision or kv.create_revision)
        ]
        name = {
            SortTarget.KEY: "key",
            SortTarget.VERSION: "version",
            SortTarget.CREATE: "create_revision",
            SortTarget.MOD: "mod_revision",
            SortTarget.VALUE: "value",
        }[request.sort_target]
        found.sort(key=lambda kv: getattr(kv, name), reverse=request.sort_order is SortOrder.DESCEND)
        more = bool(request.limit) and len(found) > request.limit
        found = found[: request.limit] if request.limit else found
        return [attrs.evolve(kv, value=b"") if request.keys_only else kv for kv in found], more, count

    def events(self, start: int) -> list[tuple[int, bytes, KeyValue | None, KeyValue | None]]:
        """Revision, key, new and old version of each change from a revision on, those of one revision by key."""
        found = []
        for revision in range(max(start, 2), self.revision + 1):
            before, after = self.states[revision - 1], self.states[revision]
            for key in sorted(before.keys() | after.keys()):
                if before.get(key) != after.get(key):
                    found.append((revision, key, after.get(key), before.get(key)))
        return found


def within(state: State, key: bytes, range_end: bytes) -> list[bytes]:
    if not range_end:
        return [key] if key in state else []
    return sorted(one for one in state if key <= one and (range_end == b"\0" or one < range_end))
