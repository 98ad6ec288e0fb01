"""The store does what a much simpler one does, in any order of requests, also after a snapshot."""

from __future__ import annotations

from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.kv import KvError, KvMachine
from kraft_trio.kv.range_reads import read_range
from kraft_trio.kv.requests import (
    CompactionRequest,
    Compare,
    CompareResult,
    CompareTarget,
    DeleteRangeRequest,
    FilterType,
    LeaseGrantRequest,
    LeaseRevokeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    SortOrder,
    SortTarget,
    TxnRequest,
    WatchCreateRequest,
)
from kraft_trio.kv.watches import next_events
from tests.kv.machines import execute, reloaded, saved
from tests.kv.model import Model, Refused
from tests.support import sizes

KEYS = st.sampled_from([b"a", b"b", b"ba", b"c", b"\xff"])
ENDS = st.sampled_from([b"", b"\0", b"b", b"c", b"d"])
VALUES = st.sampled_from([b"", b"1", b"2"])
LEASES = st.sampled_from([0, 0, 1, 2])
REVISIONS = st.integers(0, 12)

PUTS = st.builds(PutRequest, KEYS, VALUES, LEASES)
DELETES = st.builds(DeleteRangeRequest, KEYS, ENDS)
TARGETS = {
    CompareTarget.VERSION: "version",
    CompareTarget.CREATE: "create_revision",
    CompareTarget.MOD: "mod_revision",
    CompareTarget.VALUE: "value",
    CompareTarget.LEASE: "lease",
}


def with_one_target(compare: Compare) -> Compare:
    """As JSON, a comparison has one target."""
    name = TARGETS[compare.target]
    return Compare(
        compare.result, compare.target, compare.key, range_end=compare.range_end, **{name: getattr(compare, name)}
    )


COMPARES = st.builds(
    Compare,
    st.sampled_from(CompareResult),
    st.sampled_from(CompareTarget),
    KEYS,
    st.integers(0, 3),
    REVISIONS,
    REVISIONS,
    VALUES,
    LEASES,
    ENDS,
).map(with_one_target)
RANGES = st.builds(
    RangeRequest,
    KEYS,
    ENDS,
    st.integers(0, 3),
    REVISIONS,
    st.sampled_from(SortOrder),
    st.sampled_from(SortTarget),
    st.booleans(),
    st.booleans(),
    st.sampled_from([False, False, True]),
    REVISIONS,
    REVISIONS,
    REVISIONS,
    REVISIONS,
)


def lists_of(operations: st.SearchStrategy[RequestOp]) -> st.SearchStrategy[tuple[RequestOp, ...]]:
    return st.lists(operations, max_size=3).map(tuple)


SIMPLE = st.builds(RequestOp, request_put=PUTS) | st.builds(RequestOp, request_delete_range=DELETES)
TXNS = st.recursive(
    st.builds(TxnRequest, st.lists(COMPARES, max_size=2).map(tuple), lists_of(SIMPLE), lists_of(SIMPLE)),
    lambda inner: st.builds(
        TxnRequest,
        st.lists(COMPARES, max_size=1).map(tuple),
        lists_of(SIMPLE | st.builds(RequestOp, request_txn=inner)),
        lists_of(SIMPLE),
    ),
    max_leaves=2,
)
STEPS = st.one_of(
    PUTS,
    DELETES,
    TXNS,
    st.builds(CompactionRequest, REVISIONS),
    st.builds(LeaseGrantRequest, st.just(60), st.integers(1, 2)),
    st.builds(LeaseRevokeRequest, st.integers(1, 2)),
    RANGES,
    st.just("snapshot"),
)


def expect(model: Model, step: Any) -> None:
    """Let the model do a step.  Raises Refused."""
    if isinstance(step, PutRequest):
        model.txn(TxnRequest(success=(RequestOp(request_put=step),)))
    elif isinstance(step, DeleteRangeRequest):
        model.txn(TxnRequest(success=(RequestOp(request_delete_range=step),)))
    elif isinstance(step, TxnRequest):
        model.txn(step)
    elif isinstance(step, CompactionRequest):
        model.compact(step.revision)
    elif isinstance(step, LeaseGrantRequest):
        if step.id in model.leases:
            raise Refused
        model.leases.add(step.id)
    else:
        if step.id not in model.leases:
            raise Refused
        model.end_lease(step.id)


def check_range(machine: KvMachine, model: Model, request: RangeRequest) -> None:
    try:
        expected = model.range(request)
    except Refused:
        expected = None
    try:
        response = read_range(machine.store, request)
    except KvError:
        assert expected is None
    else:
        assert (list(response.kvs), response.more, response.count) == expected


def check_everything(machine: KvMachine, model: Model) -> None:
    assert machine.store.revision == model.revision
    for revision in range(max(model.compacted, 1), model.revision + 1):
        check_range(machine, model, RangeRequest(b"\0", b"\0", revision=revision))
    assert {lease.id: lease.keys for lease in machine.leases} == {
        lease: {key for key, kv in model.present.items() if kv.lease == lease} for lease in model.leases
    }
    events = next_events(machine.store, WatchCreateRequest(b"\0", b"\0", prev_kv=True), model.compacted + 1).events
    assert sorted((event.kv.mod_revision, event.kv.key) for event in events if event.kv) == [
        event[:2] for event in model.events(model.compacted + 1)
    ]
    by_change = {(event.kv.mod_revision, event.kv.key): event for event in events if event.kv}
    for revision, key, new, old in model.events(model.compacted + 1):
        event = by_change[revision, key]
        assert event.kv is not None
        assert (event.kv if event.kv.version else None) == new
        if old is None or revision > model.compacted + 1:
            assert event.prev_kv == old
    for kind, is_put in ((FilterType.NOPUT, True), (FilterType.NODELETE, False)):
        watch = WatchCreateRequest(b"\0", b"\0", filters=(kind,))
        rest = next_events(machine.store, watch, model.compacted + 1).events
        assert [event.kv for event in rest] == [
            event.kv for event in events if event.kv and bool(event.kv.version) is not is_put
        ]


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=sizes.examples(300), deadline=None)
def test_the_store_does_what_the_model_does(steps: list[Any]) -> None:
    machine, model = KvMachine(), Model()
    for step in steps:
        if step == "snapshot":
            other = trio.run(reloaded, machine)
            assert saved(other) == saved(machine)
            machine = other
        elif isinstance(step, RangeRequest):
            check_range(machine, model, step)
        else:
            before = saved(machine)
            try:
                execute(machine, step)
            except KvError as error:
                assert saved(machine) == before, "a refused command has changed something"
                if "duplicate key" not in error.message:
                    try:
                        expect(model, step)
                    except Refused:
                        continue
                    raise AssertionError(f"refused: {error.message}") from error
            else:
                expect(model, step)
    check_everything(machine, model)
    check_everything(trio.run(reloaded, machine), model)
