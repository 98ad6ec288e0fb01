"""The state machine that keeps the newest record of each key."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import trio

from kraft_trio.application.latest_by_key import LatestByKey
from kraft_trio.storage.batches.batch import NewRecord, Record, decode_records, encode_batch, peek_header
from tests.support import sizes

NOW_MS: Final = 1_000


def record(offset: int, key: str | None, value: str | None, timestamp_ms: int = NOW_MS) -> Record:
    return Record(
        offset, timestamp_ms, None if key is None else key.encode(), None if value is None else value.encode()
    )


def committed(machine: LatestByKey, *records: Record) -> None:
    trio.run(machine.on_commit, records)


def saved(machine: LatestByKey) -> list[tuple[str | None, str | None]]:
    return list(map(as_text, machine.save()))


def as_text(kept: NewRecord) -> tuple[str | None, str | None]:
    return (
        None if kept.key is None else kept.key.decode(),
        None if kept.value is None else kept.value.decode(),
    )


def loaded(end_offset: int, records: Iterable[NewRecord]) -> LatestByKey:
    """A machine that begins with a snapshot of these records, whose offsets there begin at 1."""
    read = [
        Record(offset, NOW_MS if kept.timestamp_ms is None else kept.timestamp_ms, kept.key, kept.value, kept.headers)
        for offset, kept in enumerate(records, 1)
    ]

    async def in_batches() -> AsyncIterator[Sequence[Record]]:
        for start in range(0, len(read), 3):
            yield read[start : start + 3]

    machine = LatestByKey()
    trio.run(machine.load, end_offset, in_batches())
    return machine


def unmerged(machine: LatestByKey) -> int:
    return sum(map(len, machine._layers))


def test_the_newest_record_of_each_key_is_kept_in_log_order() -> None:
    machine = LatestByKey()
    committed(machine, record(0, "a", "1"), record(1, "b", "1"), record(2, "c", "1"))
    committed(machine, record(3, "a", "2"))
    assert saved(machine) == [("b", "1"), ("c", "1"), ("a", "2")]
    assert len(machine) == 3


def test_a_null_value_deletes_the_key() -> None:
    machine = LatestByKey()
    committed(machine, record(0, "a", "1"), record(1, "b", "1"), record(2, "a", None), record(3, "never", None))
    assert saved(machine) == [("b", "1")]
    committed(machine, record(4, "a", "2"))
    assert saved(machine) == [("b", "1"), ("a", "2")]


def test_records_without_a_key_are_all_kept() -> None:
    machine = LatestByKey()
    committed(machine, record(0, None, "1"), record(1, "a", "1"), record(2, None, "1"), record(3, None, None))
    assert saved(machine) == [(None, "1"), ("a", "1"), (None, "1"), (None, None)]
    again = loaded(4, machine.save())
    committed(again, record(4, None, "2"), record(5, "a", "2"))
    assert saved(again) == [(None, "1"), (None, "1"), (None, None), (None, "2"), ("a", "2")]


def test_headers_and_times_are_kept() -> None:
    machine = LatestByKey()
    committed(machine, Record(0, 7, b"a", b"1", (("h", b"x"), ("h", None))))
    assert list(machine.save()) == [NewRecord(b"1", b"a", (("h", b"x"), ("h", None)), 7)]


def test_records_of_any_times_fit_one_batch() -> None:
    machine = LatestByKey()
    committed(machine, record(0, "a", "1", -(2**63)), record(1, "b", "1", 2**63 - 1), record(2, "c", "1", 5))
    batch = encode_batch(list(machine.save()), timestamp_ms=NOW_MS)
    assert [kept.timestamp_ms for kept in decode_records(batch, 0, peek_header(batch))] == [-1, 2**62, 5]


def test_what_is_saved_is_the_state_at_the_time_of_the_call() -> None:
    machine = LatestByKey()
    committed(machine, *(record(number, f"key {number}", "old") for number in range(4)))
    saving = machine.save()
    first = next(saving)
    committed(
        machine,
        record(4, "key 0", "new"),
        record(5, "key 1", "new"),
        record(6, "key 2", None),
        record(7, "key 9", "new"),
        record(8, None, "new"),
        record(9, "key 1", "newer"),
        record(10, "key 9", None),
    )
    assert len(machine) == 4
    assert [as_text(kept) for kept in (first, *saving)] == [(f"key {number}", "old") for number in range(4)]
    assert saved(machine) == [("key 3", "old"), ("key 0", "new"), (None, "new"), ("key 1", "newer")]


def test_changes_behind_a_snapshot_merge_little_by_little() -> None:
    """No record pays for all that changed meanwhile; each merges more than it adds."""
    machine = LatestByKey()
    saving = machine.save()
    committed(machine, *(record(number, f"key {number}", "new") for number in range(1000)))
    assert list(saving) == []
    waiting = [unmerged(machine)]
    for number in range(1000, 1200):
        committed(machine, record(number, "another", str(number)))
        waiting.append(unmerged(machine))
    assert max(before - after for before, after in itertools.pairwise(waiting)) <= 8
    assert (waiting[0], waiting[-1]) == (1000, 0)
    assert saved(machine) == [*((f"key {number}", "new") for number in range(1000)), ("another", "1199")]


def test_a_save_merges_nothing() -> None:
    """It is one step of the event loop, however much has changed since the save before."""
    machine = LatestByKey()
    saving = machine.save()
    committed(machine, *(record(number, f"key {number}", "new") for number in range(1000)))
    saving.close()
    again = machine.save()
    assert unmerged(machine) == 1000
    committed(machine, record(1000, "key 0", "newer"))
    assert len(list(again)) == 1000


def test_saves_without_a_pause_stay_exact() -> None:
    machine, twin = LatestByKey(), LatestByKey()
    source = random.Random(7)
    for offset in range(400):
        saving = machine.save()
        changed = record(offset, source.choice("abcdefgh"), source.choice([None, "1", "2"]), offset)
        before = list(twin.save())
        committed(machine, changed)
        committed(twin, changed)
        assert list(saving) == before
    assert len(machine._layers) <= 16


def test_a_snapshot_that_was_given_up_leaves_the_state_as_it_is() -> None:
    machine = LatestByKey()
    committed(machine, record(0, "a", "1"), record(1, "b", "1"))
    given_up = machine.save()
    next(given_up)
    committed(machine, record(2, "a", "2"))
    assert saved(machine) == [("b", "1"), ("a", "2")]
    del given_up
    committed(machine, record(3, "b", None))
    never_begun = machine.save()
    committed(machine, record(4, "c", "1"))
    del never_begun
    assert saved(machine) == [("a", "2"), ("c", "1")]


def test_one_that_ends_late_does_not_disturb_the_next() -> None:
    """As if the task that wrote it had been cancelled, and were cleared away only now."""
    machine = LatestByKey()
    committed(machine, record(0, "a", "1"), record(1, "b", "1"))
    given_up = machine.save()
    next(given_up)
    saving = machine.save()
    first = next(saving)
    committed(machine, record(2, "b", "2"), record(3, "c", "1"))
    given_up.close()
    assert [as_text(kept) for kept in (first, *saving)] == [("a", "1"), ("b", "1")]
    assert saved(machine) == [("a", "1"), ("b", "2"), ("c", "1")]


def test_a_state_that_is_replaced_while_it_is_saved() -> None:
    machine = LatestByKey()
    committed(machine, record(0, "a", "1"), record(1, "b", "1"))
    saving = machine.save()
    next(saving)
    committed(machine, record(2, "lost", "1"))

    async def records() -> AsyncIterator[Sequence[Record]]:
        yield [record(1, "c", "1")]

    trio.run(machine.load, 9, records())
    committed(machine, record(9, "d", "1"))
    assert [as_text(kept) for kept in saving] == [("b", "1")]
    assert saved(machine) == [("c", "1"), ("d", "1")]


def test_equal_logs_give_equal_snapshots() -> None:
    for seed in sizes.part(range(50), 4):
        source = random.Random(seed)
        from_the_start, history = LatestByKey(), []
        later = from_the_start
        for offset in range(60):
            key = source.choice(["a", "b", "c", "d", "e", None])
            next_record = record(offset, key, source.choice([None, "1", "2"]), offset)
            history.append(next_record)
            committed(from_the_start, next_record)
            if later is not from_the_start:
                committed(later, next_record)
            if source.random() < 0.1:
                later = loaded(offset + 1, later.save())
        assert list(later.save()) == list(from_the_start.save()), f"seed {seed}"
