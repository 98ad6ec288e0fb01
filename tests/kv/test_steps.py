"""Large commands are applied in pieces: others run between them, and see the store as it was before the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.application.state_machine import Committed
from kraft_trio.kv import KvError, KvMachine
from kraft_trio.kv.budget import KEY_BYTES_PER_PIECE, KEYS_PER_PIECE, MAX_KEYS, Budget, Steps, run_at_once
from kraft_trio.kv.intervals import Interval
from kraft_trio.kv.pieces import BYTES_PER_PIECE, sorted_in_pieces
from kraft_trio.kv.range_reads import range_in_pieces, read_range
from kraft_trio.kv.requests import (
    Advance,
    Command,
    CompactionRequest,
    Compare,
    CompareResult,
    CompareTarget,
    DeleteRangeRequest,
    LeaseGrantRequest,
    LeaseRevokeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
)
from kraft_trio.kv.responses import KeyValue, RangeResponse, ResponseHeader, Result
from kraft_trio.kv.store import Overtaken, Store
from kraft_trio.kv.transactions import read_txn
from kraft_trio.simulation import Cluster
from tests.kv.gateways import b64, gateways, kv_setup
from tests.kv.looked_at import looked_at
from tests.kv.machines import execute, reloaded, saved
from tests.kv.test_machine_properties import STEPS
from tests.support import sizes
from tests.support.on_cluster import on_cluster

pytestmark = pytest.mark.rotating(2)

COUNT = 3 * KEYS_PER_PIECE
EVERYTHING = RangeRequest(b"\0", b"\0")
DELETE = RequestOp(request_delete_range=DeleteRangeRequest(b"\0", b"\0"))


def in_steps(machine: KvMachine, command: Any, between: Callable[[], object] = lambda: None) -> tuple[Result, int]:
    """Apply a command as a node does, and return its result and how often others have run."""
    steps = machine.apply_in_steps(Committed(0, 0, command))
    assert steps is not None, "a short command"
    for turns in range(10**6):
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result, turns
        between()
    raise AssertionError("it does not end")


def filled(keys: int = COUNT) -> KvMachine:
    """Each key has two versions and one of two leases."""
    machine = KvMachine()
    for lease in (1, 2):
        execute(machine, LeaseGrantRequest(60, lease))
    for number in range(keys):
        execute(machine, PutRequest(b"%06d" % number))
        execute(machine, PutRequest(b"%06d" % number, b"value", lease=1 + number % 2))
    return machine


def test_values_that_are_compared_make_shorter_pieces() -> None:
    """They may be alike up to their ends."""
    machine, value, keys = KvMachine(), b"x" * 1024 * 1024, 64
    for number in range(keys):
        execute(machine, PutRequest(b"%06d" % number, value))
    alike = Compare(key=b"0", range_end=b"1", target=CompareTarget.VALUE, value=value)
    result, turns = in_steps(machine, TxnRequest((alike,)))
    assert result.succeeded  # type: ignore[union-attr]
    assert turns >= keys * len(value) // BYTES_PER_PIECE


OLD = RequestOp(request_delete_range=DeleteRangeRequest(b"0", b"1"))
COMMANDS: dict[str, Command] = {
    "delete": DeleteRangeRequest(b"\0", b"\0"),
    "transaction": TxnRequest((), (RequestOp(request_put=PutRequest(b"new", lease=1)), OLD)),
    "compaction": CompactionRequest(2 * COUNT),
    "revoke": LeaseRevokeRequest(1),
    "advance": Advance(1_000_000),
}
PIECES = {"delete": 3, "transaction": 3, "compaction": 6, "revoke": 2, "advance": 4}
"""The keys or versions that they look at, by KEYS_PER_PIECE."""


@pytest.mark.parametrize("name", COMMANDS)
def test_others_run_between_pieces_and_see_the_state_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, whole = filled(), filled()
    for one in (machine, whole):
        execute(one, Advance(1))
    before = [read_range(machine.store, EVERYTHING), list(machine.store.changes())]
    counted = looked_at(monkeypatch)
    most = 0

    def others() -> None:
        nonlocal most
        most = max(most, counted.since())
        if name not in ("compaction", "advance"):
            assert list(machine.store.changes()) == before[1]
        if name != "advance":  # each lease that it ends is a revision of its own
            assert read_range(machine.store, EVERYTHING) == before[0]
            assert read_range(machine.store, RangeRequest(b"\0", b"\0", count_only=True)).count == COUNT
            assert machine.store.get(b"000001")
        counted.since()

    result, turns = in_steps(machine, COMMANDS[name], others)
    assert turns >= PIECES[name]
    assert most <= 2 * KEYS_PER_PIECE + 8  # a key that is deleted is looked at, and changed
    assert result == execute(whole, COMMANDS[name])
    assert saved(machine) == saved(whole)
    assert trio.run(reloaded, machine).store.count(Interval(b"", None)) == machine.store.count(Interval(b"", None))
    if name != "compaction":
        assert read_range(machine.store, EVERYTHING) != before[0]


def test_a_refused_transaction_is_undone_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = filled()
    before, leases = saved(machine), [set(lease.keys) for lease in machine.leases]
    ranges = (RequestOp(request_range=RangeRequest(b"\0", b"\0", revision=2 * COUNT)),) * 40
    steps = machine.apply_in_steps(Committed(0, 0, TxnRequest((), (DELETE, *ranges))))
    assert steps is not None

    def refused() -> None:
        for _ in steps:
            assert read_range(machine.store, EVERYTHING).count == COUNT

    with pytest.raises(KvError, match="too large"):
        refused()
    assert saved(machine) == before
    assert [lease.keys for lease in machine.leases] == leases
    assert read_range(machine.store, EVERYTHING).count == machine.store.count(Interval(b"", None)) == COUNT


@pytest.mark.parametrize(
    "command",
    [
        PutRequest(b"k"),
        DeleteRangeRequest(b"000001"),
        TxnRequest((), (RequestOp(request_put=PutRequest(b"k")), RequestOp(request_range=RangeRequest(b"k")))),
    ],
)
def test_short_commands_have_no_steps(command: Command) -> None:
    """A node applies them in the turn that commits them."""
    machine = filled(10)
    assert machine.apply_in_steps(Committed(0, 0, command)) is None


def test_many_leases_are_renewed_and_ended_in_pieces() -> None:
    machine = KvMachine()
    for lease in range(1, COUNT + 1):
        execute(machine, LeaseGrantRequest(60, lease))
        execute(machine, PutRequest(b"%d" % lease, lease=lease))
    assert in_steps(machine, Advance(1))[1] >= 3
    left = []
    in_steps(machine, Advance(100_000), lambda: left.append(len(machine.leases)))
    assert max(one - other for one, other in zip((COUNT, *left), (*left, 0), strict=True)) <= 64
    assert machine.store.count(Interval(b"", None)) == 0


def test_a_range_looks_at_no_more_keys_than_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = filled()
    counted = looked_at(monkeypatch)
    for request, most in (
        (RangeRequest(b"\0", b"\0", count_only=True), 0),
        (RangeRequest(b"\0", b"\0", limit=5), 6),
        (RangeRequest(b"\0", b"\0", limit=5, sort_order=2), 6),  # type: ignore[arg-type]
        (RangeRequest(b"\0", b"\0", limit=KEYS_PER_PIECE + 1), 2 * KEYS_PER_PIECE),
    ):
        response = read_range(machine.store, request)
        assert response.count == COUNT
        assert response.more is (request.limit > 0)
        assert len(response.kvs) == request.limit
        assert counted.since() <= most


def test_keys_that_are_deleted_cost_a_range_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = filled()
    execute(machine, DeleteRangeRequest(b"000001", b"\0"))
    counted = looked_at(monkeypatch)
    assert read_range(machine.store, EVERYTHING).count == 1
    assert counted.keys == 1


OLD_RANGE = RequestOp(request_range=RangeRequest(b"\0", b"\0", revision=2))


def test_keys_that_did_not_exist_yet_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range at an old revision looks at all keys that have a later one."""
    machine = filled()
    counted = looked_at(monkeypatch)
    most = 0

    def others() -> None:
        nonlocal most
        most = max(most, counted.since())

    put = RequestOp(request_put=PutRequest(b"new"))
    _, turns = in_steps(machine, TxnRequest((), (put, OLD_RANGE, OLD_RANGE)), others)
    assert turns >= 2 * COUNT // KEYS_PER_PIECE
    assert most <= 2 * KEYS_PER_PIECE
    revision = machine.store.revision
    with pytest.raises(KvError, match="looks at over"):
        in_steps(machine, TxnRequest((), (put, *(OLD_RANGE,) * (MAX_KEYS // COUNT + 1))))
    assert machine.store.revision == revision


@pytest.mark.parametrize("command", [DeleteRangeRequest(b"\0", b"\0"), LeaseRevokeRequest(1)], ids=["delete", "revoke"])
def test_long_keys_make_short_pieces(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = KvMachine()
    execute(machine, LeaseGrantRequest(60, 1))
    prefix = b"k" * (KEY_BYTES_PER_PIECE // 8)
    for number in range(40):
        execute(machine, PutRequest(prefix + b"%d" % number, lease=1))
    deleted = list[int]()
    count, delete = 0, Store.delete

    def counting(store: Store, key: bytes) -> None:
        nonlocal count
        count += len(key)
        delete(store, key)

    monkeypatch.setattr(Store, "delete", counting)
    in_steps(machine, command, lambda: deleted.append(count))
    sizes_of_pieces = [other - one for one, other in zip([0, *deleted], [*deleted, count], strict=True)]
    assert 40 * len(prefix) <= sum(sizes_of_pieces) == count
    assert max(sizes_of_pieces) <= 2 * KEY_BYTES_PER_PIECE
    assert not machine.store.count(Interval(b"", None))


@pytest.mark.parametrize("reverse", [False, True])
def test_large_values_are_sorted_in_short_pieces(reverse: bool) -> None:
    values = [number * 7 % 50 for number in range(50)]
    steps = sorted_in_pieces(values, reverse=reverse, size=lambda value: BYTES_PER_PIECE // 4)
    pieces = 0

    def counted() -> Steps[list[int]]:
        nonlocal pieces
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            pieces += 1
            yield

    assert run_at_once(counted()) == sorted(values, reverse=reverse)
    assert pieces == 2 * 13


def test_comparisons_that_do_not_hold_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = filled()
    counted = looked_at(monkeypatch)
    fails = Compare(CompareResult.GREATER, CompareTarget.VERSION, b"0", version=9, range_end=b"1")
    nested = RequestOp(request_txn=TxnRequest((fails,)))
    pieces = []
    put = RequestOp(request_put=PutRequest(b"new"))
    in_steps(machine, TxnRequest((), (put, *(nested,) * 20)), lambda: pieces.append(counted.since()))
    assert max(pieces) <= KEYS_PER_PIECE + 8


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=sizes.examples(200), deadline=None)
def test_steps_do_what_apply_does(steps: list[Any]) -> None:
    machine, whole = KvMachine(), KvMachine()
    for step in steps:
        if step == "snapshot":
            machine = trio.run(reloaded, machine)
        elif not isinstance(step, RangeRequest):
            outcomes: list[object] = []
            for one, apply in ((machine, _stepwise), (whole, execute)):
                try:
                    outcomes.append(apply(one, step))
                except KvError as error:
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]
    assert saved(machine) == saved(whole)


def _stepwise(machine: KvMachine, command: Any) -> Result:
    is_short = machine.apply_in_steps(Committed(0, 0, command)) is None
    return execute(machine, command) if is_short else in_steps(machine, command)[0]


def reading(machine: KvMachine, revision: int) -> Steps[RangeResponse]:
    header = ResponseHeader(revision=revision)
    return range_in_pieces(machine.store, EVERYTHING, revision, Budget.without_limits(), header)


def test_a_read_in_pieces_sees_one_revision() -> None:
    machine = filled()
    expected = read_range(machine.store, EVERYTHING)
    steps = reading(machine, machine.store.revision)
    next(steps)
    execute(machine, DeleteRangeRequest(b"\0", b"\0"))
    execute(machine, PutRequest(b"000000x"))
    assert run_at_once(steps) == expected


@pytest.mark.parametrize("forgets", ["compaction", "another store"])
def test_a_read_that_is_overtaken_says_so(forgets: str) -> None:
    """A node begins it again from the newest state."""
    machine = filled()
    steps = reading(machine, machine.store.revision)
    next(steps)
    if forgets == "compaction":
        execute(machine, DeleteRangeRequest(b"\0", b"\0"))
        execute(machine, CompactionRequest(machine.store.revision))
    else:
        assert sum(1 for _ in machine.store.forget()) >= 9
        assert not list(machine.store.changes())
    with pytest.raises(Overtaken):
        run_at_once(steps)


@on_cluster(**kv_setup(voters=1))
async def test_a_client_gets_what_a_compaction_has_left(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads two pieces, and between them everything is deleted and compacted."""
    async with gateways(cluster) as serving:
        machine = serving.services[1].machine
        for number in range(2 * KEYS_PER_PIECE):
            execute(machine, PutRequest(b"%06d" % number))
        pieces, seen = Store.pieces, list[int]()

        def compacting(*arguments: Any, **options: Any) -> Iterator[list[KeyValue]]:
            for piece in pieces(*arguments, **options):
                yield piece
                seen.append(len(piece))
                if len(seen) == 1:
                    execute(machine, DeleteRangeRequest(b"000001", b"\0"))
                    execute(machine, CompactionRequest(machine.store.revision))

        monkeypatch.setattr(Store, "pieces", compacting)
        status, answer = await serving.clients[1].post("/v3/kv/range", {"key": b64("\0"), "range_end": b64("\0")})
        assert (status, answer["count"], len(answer["kvs"])) == (200, "1", 1)
        assert seen[0] == KEYS_PER_PIECE


def test_a_key_that_is_changed_and_compacted_meanwhile_is_not_taken_for_absent() -> None:
    machine = KvMachine()
    execute(machine, PutRequest(b"k", b"old"))
    absent = Compare(CompareResult.EQUAL, CompareTarget.VERSION, b"k", version=0)
    steps = read_txn(machine.store, ResponseHeader(revision=machine.store.revision), TxnRequest((absent,)))
    execute(machine, PutRequest(b"k", b"new"))
    execute(machine, CompactionRequest(machine.store.revision))
    with pytest.raises(Overtaken):
        run_at_once(steps)
