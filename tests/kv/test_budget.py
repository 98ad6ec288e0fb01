"""What one command may cost: a command above it is refused on every replica, and changes nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.application.state_machine import Committed
from kraft_trio.kv import CommandSerde, KvError, KvMachine
from kraft_trio.kv.budget import MAX_ANSWER_BYTES, MAX_COMMAND_BYTES, MAX_COMMAND_ITEMS, MAX_KEYS, MAX_OPERATIONS
from kraft_trio.kv.command_serde import PREFIX, TooLarge
from kraft_trio.kv.intervals import Interval, KeySet
from kraft_trio.kv.msgpack_items import has_more_items
from kraft_trio.kv.request_checks import check_txn
from kraft_trio.kv.requests import (
    Command,
    Compare,
    CompareResult,
    DeleteRangeRequest,
    LeaseGrantRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
)
from kraft_trio.kv.responses import TxnResponse
from tests.kv.looked_at import looked_at
from tests.kv.machines import apply_bytes, execute, saved
from tests.support import sizes

EVERYTHING = RangeRequest(b"\0", b"\0")
PUT = RequestOp(request_put=PutRequest(b"new", b"value", lease=1))


def filled(keys: int, value: bytes = b"") -> KvMachine:
    machine = KvMachine()
    execute(machine, LeaseGrantRequest(60, 1))
    for number in range(keys):
        execute(machine, PutRequest(b"%06d" % number, value, lease=1))
    return machine


def nested(width: int, levels: int, leaf: Callable[[int], RequestOp]) -> tuple[RequestOp, ...]:
    """Operations in transactions within one another, `width` in each list, as deep as etcd's rule allows."""
    counter = iter(range(10**9))

    def operations(level: int) -> tuple[RequestOp, ...]:
        if not level:
            return tuple(leaf(next(counter)) for _ in range(width))
        return tuple(RequestOp(request_txn=TxnRequest((), operations(level - 1))) for _ in range(width))

    return operations(levels)


def count_of(operations: tuple[RequestOp, ...]) -> int:
    return sum(1 + (0 if one.request_txn is None else count_of(one.request_txn.success)) for one in operations)


def put(number: int) -> RequestOp:
    return RequestOp(request_put=PutRequest(b"%09d" % number))


def check_refused(machine: KvMachine, command: Command, message: str) -> None:
    before, leases = saved(machine), [set(lease.keys) for lease in machine.leases]
    with pytest.raises(KvError, match=message):
        execute(machine, command)
    assert saved(machine) == before, "a refused command has changed something"
    assert [lease.keys for lease in machine.leases] == leases
    after = execute(machine, PutRequest(b"000000"))
    assert after.header is not None
    assert machine.store.count(Interval(b"", None)) == len({kv.key for kv in machine.store.changes() if kv.version})


@pytest.mark.parametrize(("width", "levels"), [(32, 2), (8, 4), (2, 10)])
def test_nested_transactions_have_one_budget_of_operations(width: int, levels: int) -> None:
    operations = nested(width, levels, put)
    assert count_of(operations) > MAX_OPERATIONS
    check_refused(filled(1), TxnRequest((), operations), "too many operations")


def test_comparisons_and_both_branches_count() -> None:
    reads = (RequestOp(request_range=RangeRequest(b"k")),) * 60
    inner = RequestOp(request_txn=TxnRequest((Compare(key=b"k"),) * 60, reads, reads))
    assert execute(filled(1), TxnRequest((), (inner, inner), (inner, inner, inner)))
    check_refused(filled(1), TxnRequest((), (inner,) * 3, (inner,) * 3), "too many operations")


def test_the_largest_transaction_is_executed() -> None:
    operations = nested(31, 1, put)
    assert MAX_OPERATIONS - 33 < count_of(operations) <= MAX_OPERATIONS
    machine = KvMachine()
    result = execute(machine, TxnRequest((), operations))
    assert isinstance(result, TxnResponse)
    assert machine.store.count(Interval(b"", None)) == 31 * 31


@pytest.mark.parametrize("kind", ["range", "delete", "compare"])
def test_a_transaction_that_looks_at_too_many_keys_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has put a key before that, with a lease."""
    machine = filled(1000)
    looks = MAX_KEYS // 1000 + 1
    counted = looked_at(monkeypatch)
    if kind == "compare":
        always = Compare(CompareResult.NOT_EQUAL, key=b"0", range_end=b"1")
        request = TxnRequest((Compare(key=b"k"),), (RequestOp(request_txn=TxnRequest((always,) * looks, (PUT,))),))
    else:
        one = RequestOp(request_range=RangeRequest(b"0", b"1", min_mod_revision=10**9))
        last = RequestOp(request_delete_range=DeleteRangeRequest(b"0", b"1")) if kind == "delete" else one
        request = TxnRequest((), (PUT, *(one,) * (looks - 1), last))
    if kind != "compare":
        limited = RequestOp(request_range=RangeRequest(b"0", b"1", limit=1))
        assert execute(machine, TxnRequest((), (limited,) * 100))
        assert counted.since() <= 300
    check_refused(machine, request, f"looks at over {MAX_KEYS} keys")


def test_counted_keys_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = filled(1000)
    counted = looked_at(monkeypatch)
    count = RequestOp(request_range=RangeRequest(b"0", b"1", count_only=True))
    result = execute(machine, TxnRequest((), (count,) * 128))
    assert isinstance(result, TxnResponse)
    assert {one.response_range.count for one in result.responses if one.response_range} == {1000}
    assert counted.keys == 0


def test_an_answer_that_repeats_a_large_value_is_refused() -> None:
    machine = filled(1, bytes(700_000))
    read = RequestOp(request_range=RangeRequest(b"000000"))
    assert execute(machine, TxnRequest((), (PUT, *(read,) * 5)))
    check_refused(machine, TxnRequest((), (PUT, *(read,) * 6)), f"over {MAX_ANSWER_BYTES} bytes")
    for number in range(6):
        execute(machine, PutRequest(b"%d" % number, bytes(700_000)))
    again = tuple(RequestOp(request_put=PutRequest(b"%d" % number, prev_kv=True, lease=1)) for number in range(6))
    check_refused(machine, TxnRequest((), again), f"over {MAX_ANSWER_BYTES} bytes")
    check_refused(machine, DeleteRangeRequest(b"0", b"9", prev_kv=True), f"over {MAX_ANSWER_BYTES} bytes")
    assert execute(machine, DeleteRangeRequest(b"0", b"9"))


def test_a_put_whose_answer_is_too_large_changes_nothing() -> None:
    """And leaves no transaction open, in which the next command would fall."""
    machine = filled(1)
    large = PutRequest(b"large", bytes(MAX_ANSWER_BYTES - 100))
    execute(machine, large)
    check_refused(machine, PutRequest(b"large", b"small", prev_kv=True), f"over {MAX_ANSWER_BYTES} bytes")
    present = machine.store.at(b"large", None)
    assert present is not None
    assert present.value == large.value
    execute(machine, PutRequest(b"large", b"small"))


def test_a_transaction_too_deep_to_be_decoded_is_refused() -> None:
    """How deep one can be decoded depends on the version of Python, and all replicas must refuse the same."""
    around: bytes = msgpack.packb([None, None, None, [[], [0]]])[:-1]
    machine = KvMachine()
    reasons = set()
    for levels in (80, 300):
        inner = around * levels + msgpack.packb([None, [b"k"]], use_bin_type=True)
        decoded = CommandSerde().decode(PREFIX + msgpack.packb([3, [], [0]])[:-1] + inner)
        assert isinstance(decoded, TooLarge) == (levels == 300)
        with pytest.raises(KvError) as refused:
            machine.apply(Committed(0, 0, decoded))
        reasons.add(str(refused.value))
    assert len(reasons) == 1


def txn_bytes(operations: list[object]) -> bytes:
    packed: bytes = msgpack.packb([3, [], operations], use_bin_type=True)
    return PREFIX + packed


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (txn_bytes([[]] * (MAX_COMMAND_ITEMS + 1)), "too many operations"),
        (txn_bytes([[None, [b"k"]]] * MAX_COMMAND_ITEMS), "too many operations"),
        (PREFIX + msgpack.packb([1, b"k", bytes(MAX_COMMAND_BYTES)]), "request is too large"),
    ],
)
def test_a_command_that_is_too_large_is_refused_before_it_is_decoded(
    data: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(msgpack, "unpackb", lambda *_, **__: pytest.fail("it was decoded"))
    assert isinstance(CommandSerde().decode(data), TooLarge)
    with pytest.raises(KvError, match=message):
        apply_bytes(KvMachine(), data)


def test_a_large_value_is_decoded() -> None:
    """Its bytes look like many items."""
    value = b"\x90" * (MAX_COMMAND_BYTES - 100)
    command = PutRequest(b"k", value)
    assert CommandSerde().decode(CommandSerde().encode(command)) == command


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.binary() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers(0, 9), inner),
)


def items_of(value: object) -> int:
    if isinstance(value, list):
        return 1 + sum(map(items_of, value))
    if isinstance(value, dict):
        return 1 + sum(1 + items_of(one) for one in value.values())
    return 1


@given(VALUES, st.binary(max_size=3))
@settings(max_examples=sizes.examples(200), deadline=None)
def test_items_are_counted_without_decoding(value: object, before: bytes) -> None:
    data = before + msgpack.packb(value, use_bin_type=True)
    assert not has_more_items(data, len(before), items_of(value))
    assert has_more_items(data, len(before), items_of(value) - 1)


@given(st.binary())
@settings(max_examples=sizes.examples(200), deadline=None)
def test_any_bytes_can_be_counted(data: bytes) -> None:
    assert not has_more_items(data, 0, len(data))


KEYS = st.binary(max_size=2)
INTERVALS = st.builds(Interval, KEYS, st.none() | KEYS)


@given(st.lists(INTERVALS), st.lists(KEYS))
@settings(max_examples=sizes.examples(300), deadline=None)
def test_a_set_of_keys_has_those_of_its_intervals(intervals: list[Interval], keys: list[bytes]) -> None:
    union = KeySet()
    for interval in intervals:
        union.add(interval)
    ends = [interval.end for interval in intervals if interval.end is not None]
    for key in (*keys, *ends, *(interval.start for interval in intervals)):
        assert (key in union) == any(key in interval for interval in intervals)
    merged = list(union)
    assert all(one.end is not None and one.end < other.start for one, other in itertools.pairwise(merged))


def test_duplicates_are_found_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many puts as deletions: a key is not compared with each of them."""
    compared = 0

    def counting(interval: Interval, key: bytes, contains: Callable[..., bool] = Interval.__contains__) -> bool:
        nonlocal compared
        compared += 1
        return contains(interval, key)

    chance = random.Random(1)
    numbers = chance.sample(range(1000), 30)
    deletes = [RequestOp(request_delete_range=DeleteRangeRequest(b"d%03d" % one, b"d%03d0" % one)) for one in numbers]
    puts = [RequestOp(request_put=PutRequest(b"p%03d" % one)) for one in numbers]
    operations = tuple(
        RequestOp(request_txn=TxnRequest((), tuple(group), ()))
        for group in (deletes[:15], deletes[15:], puts[:15], puts[15:])
    )
    monkeypatch.setattr(Interval, "__contains__", counting)
    check_txn(TxnRequest((), operations))
    assert compared <= 2 * len(puts)
    clash = RequestOp(request_put=PutRequest(b"d%03d" % numbers[3]))
    with pytest.raises(KvError, match="duplicate key"):
        check_txn(TxnRequest((), (*operations, clash)))
