"""The adapter of a StateMachine: outcomes, the table of requests in snapshots, and turns for other tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from kraft_trio import CommandFailed, Committed, CorruptLogError, NewRecord, RawSerde, Record, ResultLostError
from kraft_trio.application.machine_adapter import CALL_HEADER, REQUEST_HEADER, MachineAdapter
from kraft_trio.application.outcomes import MAX_OUTCOME_BYTES, MAX_OUTCOME_ITEMS, Outcome, OutcomeSerde
from kraft_trio.errors import CorruptSnapshotError
from kraft_trio.protocol.request_ids import new_request_id
from kraft_trio.protocol.request_table import MAX_AGE_MS
from tests.support.ledger import Ledger, Refusal

NOW_MS = 1_700_000_000_000
ID = new_request_id(NOW_MS, 1)


def record(offset: int, value: bytes, *headers: tuple[str, bytes]) -> Record:
    return Record(offset, NOW_MS, None, value, headers, 1)


def adapter() -> tuple[Ledger, MachineAdapter[bytes, int]]:
    ledger = Ledger()
    return ledger, MachineAdapter(ledger, RawSerde())


async def batches(*saved: NewRecord | bytes) -> AsyncIterator[Sequence[Record]]:
    """What a snapshot gives back, two records at a time."""
    records = [
        Record(offset, 0, one.key, one.value, one.headers) if isinstance(one, NewRecord) else record(offset, one)
        for offset, one in enumerate(saved)
    ]
    for first in range(0, len(records), 2):
        yield records[first : first + 2]


async def test_a_request_is_applied_once() -> None:
    ledger, machine = adapter()
    header = (REQUEST_HEADER, ID.bytes)
    with machine.call(ID.bytes) as first, machine.call(ID.bytes) as second:
        await machine.on_commit([record(1, b"a", header), record(2, b"a", header), record(3, b"b")])
    assert ledger.entries == [b"a", b"b"]
    assert first.outcome == second.outcome == Outcome(1)


async def test_only_its_own_call_gets_an_outcome() -> None:
    _, machine = adapter()
    with machine.call(b"mine") as mine:
        await machine.on_commit([record(1, b"a", (CALL_HEADER, b"other"))])
        assert mine.outcome is None
        await machine.on_commit([record(2, b"a", (CALL_HEADER, b"mine"))])
        await machine.on_commit([record(3, b"a", (CALL_HEADER, b"mine"))])
    assert mine.outcome == Outcome(2)


async def test_a_malformed_request_id_is_not_applied() -> None:
    ledger, machine = adapter()
    await machine.on_commit([record(1, b"a", (REQUEST_HEADER, b"1234")), record(2, b"b")])
    assert ledger.entries == [b"b"]


async def test_a_snapshot_has_the_requests_and_the_state() -> None:
    _, machine = adapter()
    headers = [(REQUEST_HEADER, new_request_id(NOW_MS, number).bytes) for number in range(5)]
    commands = [record(number, b"x?" if number == 3 else b"x", header) for number, header in enumerate(headers)]
    await machine.on_commit(commands)
    saved = list(machine.save())
    restored, other = adapter()
    with other.call(headers[1][1]) as waiting:
        await other.load(5, batches(*saved))
    assert waiting.outcome == Outcome(2)
    assert restored.entries == [b"x"] * 4
    await other.on_commit(commands)
    assert restored.entries == [b"x"] * 4
    assert list(other.save()) == saved


async def test_a_snapshot_is_the_state_at_its_time() -> None:
    _, machine = adapter()
    await machine.on_commit([record(1, b"a", (REQUEST_HEADER, ID.bytes))])
    expected = list(machine.save())
    saving = machine.save()
    await machine.on_commit([record(2, b"b", (REQUEST_HEADER, new_request_id(NOW_MS, 2).bytes))])
    assert list(saving) == expected


async def test_the_rule_holds_again_after_a_snapshot_of_an_older_build() -> None:
    """A node that is upgraded after the others loads its own snapshot, which does not tell of the rule."""
    _, leader = adapter()
    first, later = ID, new_request_id(NOW_MS + 2 * MAX_AGE_MS, 2)
    command = record(0, b"a", *leader.request_headers(first))
    await leader.on_commit([command])
    mark, *others = leader.save()
    assert isinstance(mark, NewRecord)
    ledger, upgraded = adapter()
    await upgraded.load(1, batches(attrs.evolve(mark, headers=mark.headers[:1]), *others))
    next_one = attrs.evolve(record(1, b"b", *leader.request_headers(later)), timestamp_ms=NOW_MS + 2 * MAX_AGE_MS)
    await upgraded.on_commit([next_one])
    with upgraded.call(first.bytes) as again:
        await upgraded.on_commit([attrs.evolve(command, offset=2)])
    assert (again.outcome, ledger.entries) == (Outcome(1), [b"a", b"b"])


@pytest.mark.parametrize("saved", [[], [b"a", b"b"]], ids=["empty", "only a state"])
async def test_a_snapshot_without_requests_is_loaded(saved: list[bytes]) -> None:
    ledger, machine = adapter()
    await machine.load(2, batches(*saved))
    assert ledger.entries == saved


async def test_a_damaged_table_is_refused() -> None:
    _, machine = adapter()
    await machine.on_commit([record(1, b"a", (REQUEST_HEADER, ID.bytes))])
    mark, *rest = machine.save()
    with pytest.raises(CorruptSnapshotError, match="it ends too early"):
        await machine.load(1, batches(mark))
    with pytest.raises(CorruptSnapshotError, match="cannot be read"):
        await machine.load(1, batches(mark, b"\xc1", *rest))


async def test_a_large_batch_gives_other_tasks_a_turn() -> None:
    ledger, machine = adapter()
    seen: list[int] = []

    async def look() -> None:
        while len(ledger.entries) < 1000:
            seen.append(len(ledger.entries))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await machine.on_commit([record(offset, b"a") for offset in range(1000)])
    assert len(seen) > 10


@attrs.frozen
class Balance:
    account: str
    amounts: tuple[int, ...]


class Account:
    def apply(self, record: Committed[bytes]) -> Balance | None: ...
    def save(self) -> Iterator[bytes]:
        return iter(())

    async def load(self, records: AsyncIterator[Record]) -> None: ...


class Other(CommandFailed):
    def __init__(self, needed: int, extra: object) -> None:
        super().__init__(needed, extra)


@pytest.mark.parametrize("result", [Balance("alice", (1, 2)), None])
def test_results_have_the_annotated_type(result: Balance | None) -> None:
    serde: OutcomeSerde[Balance | None] = OutcomeSerde(Account())
    assert serde.decode(serde.encode(Outcome(result))) == Outcome(result)


@pytest.mark.parametrize("result", [{1, 2}, "text", lambda: None, (1, "a")])
def test_a_result_that_cannot_be_kept_is_lost_for_retries(result: Any) -> None:
    serde: OutcomeSerde[Any] = OutcomeSerde(Account())
    with pytest.raises(ResultLostError, match="the request was applied, and its result is lost"):
        serde.decode(serde.encode(Outcome(result))).get()


@pytest.mark.parametrize("outcome", [Outcome(b"x" * MAX_OUTCOME_BYTES), Outcome(error=Refusal("x" * 2**20))])
def test_an_outcome_that_is_too_large_is_lost_for_retries(outcome: Outcome[Any]) -> None:
    serde: OutcomeSerde[Any] = OutcomeSerde(object())
    data = serde.encode(outcome)
    assert len(data) < 1000
    with pytest.raises(ResultLostError, match=rf"at most {MAX_OUTCOME_BYTES} are kept"):
        serde.decode(data).get()


@attrs.frozen
class Pair:
    one: int
    other: list[int]


def test_a_result_of_very_many_parts_is_lost_for_retries() -> None:
    """To encode it would take long, even if it has few bytes."""
    serde: OutcomeSerde[Any] = OutcomeSerde(object())
    most = [0] * (MAX_OUTCOME_ITEMS - 1)
    assert serde.decode(serde.encode(Outcome(most))).get() == most
    for many in ([*most, 0], Pair(1, most), {number: [] for number in range(MAX_OUTCOME_ITEMS // 2)}):
        with pytest.raises(ResultLostError, match=f"over {MAX_OUTCOME_ITEMS} parts"):
            serde.decode(serde.encode(Outcome(many))).get()


def test_failures_keep_their_class_and_arguments() -> None:
    serde: OutcomeSerde[int] = OutcomeSerde(Ledger())
    for error in (Refusal(b"a", 3), Refusal(), CommandFailed("text")):
        again = serde.decode(serde.encode(Outcome(error=error))).error
        assert (type(again), again.args if again else ()) == (type(error), error.args)
    local = serde.decode(serde.encode(Outcome(error=Other(1, object())))).error
    assert type(local) is CommandFailed
    assert "object" in str(local)
    assert not isinstance(local, CorruptLogError)


class Speechless(CommandFailed):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_a_failure_that_msgpack_does_not_take_is_kept_as_its_text() -> None:
    """Else one command would end every node, and again when it is replayed.  JSON may have half a surrogate pair."""
    serde: OutcomeSerde[int] = OutcomeSerde(Ledger())
    kinds = [
        (CommandFailed("no item \ud800"), r"no item \ud800"),
        (Speechless("\ud800"), "Speechless"),
        (CommandFailed({(1, 2): 3}), "{(1, 2): 3}"),
    ]
    for error, text in kinds:
        kept = serde.decode(serde.encode(Outcome(error=error))).error
        assert isinstance(kept, CommandFailed)
        assert kept.args == (text,)


def test_a_result_of_another_version_of_the_application_is_lost() -> None:
    old: OutcomeSerde[Any] = OutcomeSerde(Ledger())
    new: OutcomeSerde[Any] = OutcomeSerde(Account())
    with pytest.raises(ResultLostError, match="its result is lost: it is not what `apply` is annotated to return"):
        new.decode(old.encode(Outcome(5))).get()


class Loading(Ledger):
    """Takes long to load."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = trio.Event()

    async def load(self, records: AsyncIterator[Record]) -> None:
        await self.may_end.wait()
        await super().load(records)


async def test_nothing_is_known_before_the_state_has_it() -> None:
    _, machine = adapter()
    await machine.on_commit([record(1, b"a", (REQUEST_HEADER, ID.bytes))])
    saved = list(machine.save())
    ledger = Loading()
    other: MachineAdapter[bytes, int] = MachineAdapter(ledger, RawSerde())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.load, 2, batches(*saved))
        await trio.testing.wait_all_tasks_blocked()
        assert other.known(ID, NOW_MS) is None
        ledger.may_end.set()
    assert other.known(ID, NOW_MS) == Outcome(1)


class Moody(Ledger):
    """Says that only the first record is short: its answer depends on its state."""

    def apply_in_steps(self, record: Committed[bytes]) -> Generator[None, None, int] | None:
        return self._steps(record) if self.entries else None

    def _steps(self, record: Committed[bytes]) -> Generator[None, None, int]:
        yield
        return self.apply(record)


async def test_a_batch_that_was_said_to_be_short_leaves_no_turns() -> None:
    """Who gave it does not wait, and others must not see a part of it."""
    ledger = Moody()
    machine: MachineAdapter[bytes, int] = MachineAdapter(ledger, RawSerde())
    few = [record(1, b"a"), record(2, b"b")]
    assert not machine.takes_long(few)
    for _ in machine.on_commit(few).__await__():
        raise AssertionError("it waits")
    assert ledger.entries == [b"a", b"b"]
