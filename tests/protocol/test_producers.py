"""Idempotent producers: what is appended once, however often it is sent."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.protocol.producers import (
    MAX_SEQUENCE,
    Accept,
    Duplicate,
    ProducerStates,
    Refuse,
    RememberedBatch,
    SequenceCheck,
    new_producer_id,
)

PRODUCER = 7


def seven_batches(epoch: int = 2) -> ProducerStates:
    """Producer 7 wrote seven batches of ten records: sequences 0-69 at offsets 100-169; the newest five are known."""
    states = ProducerStates()
    for batch in range(7):
        states.record(PRODUCER, epoch, batch * 10, 100 + batch * 10, 109 + batch * 10, timestamp_ms=1000 + batch)
    return states


def error_of(
    states: ProducerStates, base_sequence: int, records: int, producer_id: int = PRODUCER, epoch: int = 0
) -> str | None:
    answer = states.check(producer_id, epoch, base_sequence, records)
    return answer.error if isinstance(answer, Refuse) else None


@pytest.mark.parametrize(
    ("epoch", "base_sequence", "records", "verdict"),
    [
        (2, 70, 10, Accept()),
        (2, 70, 1, Accept()),
        (2, 60, 10, Duplicate(160, 169)),
        (2, 20, 10, Duplicate(120, 129)),
        (3, 0, 5, Accept()),
        (2, 10, 10, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (2, 10, 1, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (2, 0, 20, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (2, 0, 21, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (2, 71, 10, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (2, 60, 9, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (2, 61, 9, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (2, MAX_SEQUENCE - 3, 2, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (2, MAX_SEQUENCE - 3, 10, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (3, 70, 10, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (1, 70, 10, "INVALID_PRODUCER_EPOCH"),
        (1, 0, 10, "INVALID_PRODUCER_EPOCH"),
        (-1, 0, 10, "INVALID_RECORD"),
        (2, -1, 10, "INVALID_RECORD"),
        (2, MAX_SEQUENCE + 1, 10, "INVALID_RECORD"),
        (2, 70, 0, "INVALID_RECORD"),
    ],
)
def test_check(epoch: int, base_sequence: int, records: int, verdict: Accept | Duplicate | str) -> None:
    answer = seven_batches().check(PRODUCER, epoch, base_sequence, records)
    if isinstance(verdict, str):
        assert isinstance(answer, Refuse)
        assert answer.error == verdict
        assert "producer 7" in answer.reason
    else:
        assert answer == verdict


@pytest.mark.parametrize(
    ("producer_id", "base_sequence", "verdict"),
    [(-1, -1, Accept()), (-1, 5, Accept()), (8, 0, Accept()), (8, 1, "UNKNOWN_PRODUCER_ID")],
)
def test_producers_that_are_not_known(producer_id: int, base_sequence: int, verdict: Accept | str) -> None:
    answer = seven_batches().check(producer_id, 0, base_sequence, 1)
    assert answer.error == verdict if isinstance(answer, Refuse) else answer == verdict


def test_check_changes_nothing() -> None:
    states = seven_batches()
    before = list(states)
    for _ in range(2):
        assert states.check(PRODUCER, 3, 0, 5) == Accept()
        assert states.check(8, 0, 0, 1) == Accept()
    assert list(states) == before


def test_a_summary_says_what_is_remembered() -> None:
    (summary,) = seven_batches()
    assert (summary.producer_id, summary.producer_epoch, summary.timestamp_ms) == (PRODUCER, 2, 1006)
    assert summary.batches[0] == RememberedBatch(20, 29, 120, 129)
    assert summary.batches[-1] == RememberedBatch(60, 69, 160, 169)
    assert len(summary.batches) == 5


def test_a_new_epoch_starts_over() -> None:
    states = seven_batches()
    states.record(PRODUCER, 3, 0, 170, 174)
    assert states.check(PRODUCER, 3, 5, 1) == Accept()
    assert states.check(PRODUCER, 3, 0, 5) == Duplicate(170, 174)
    assert error_of(states, 60, 10, epoch=3) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


@pytest.mark.parametrize(
    ("producer_id", "epoch", "base_sequence"), [(-1, -1, -1), (-1, 0, 0), (9, 0, -1), (PRODUCER, 1, 0)]
)
def test_batches_that_leave_no_trace(producer_id: int, epoch: int, base_sequence: int) -> None:
    states = seven_batches()
    before = list(states)
    states.record(producer_id, epoch, base_sequence, 170, 170, timestamp_ms=5)
    assert list(states) == before


def test_sequences_wrap() -> None:
    states = ProducerStates()
    states.record(PRODUCER, 0, MAX_SEQUENCE - 4, 0, 9)
    assert states.check(PRODUCER, 0, 5, 3) == Accept()
    assert states.check(PRODUCER, 0, MAX_SEQUENCE - 4, 10) == Duplicate(0, 9)
    assert error_of(states, MAX_SEQUENCE - 9, 5) == "DUPLICATE_SEQUENCE_NUMBER"
    assert error_of(states, MAX_SEQUENCE - 9, 6) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error_of(states, MAX_SEQUENCE // 5 * 3, 1) == "DUPLICATE_SEQUENCE_NUMBER"
    assert error_of(states, MAX_SEQUENCE // 5 * 2, 1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error_of(states, 6, 3) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    states.record(PRODUCER, 1, 0, 10, 10)
    assert error_of(states, MAX_SEQUENCE - 9, 5, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_batch_may_end_at_the_last_sequence_number() -> None:
    states = ProducerStates()
    states.record(0, 0, 2147483638, 0, 9)
    assert states.check(0, 0, 2147483638, 10) == Duplicate(0, 9)
    assert states.check(0, 0, 0, 1) == Accept()
    assert error_of(states, 2147483647, 1, producer_id=0) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error_of(states, 2147483648, 1, producer_id=0) == "INVALID_RECORD"
    assert MAX_SEQUENCE == 2147483647


def test_sequences_wrap_between_batches_too() -> None:
    states = ProducerStates()
    states.record(PRODUCER, 0, MAX_SEQUENCE - 9, 0, 9)
    assert states.check(PRODUCER, 0, 0, 3) == Accept()
    for batch in range(6):
        states.record(PRODUCER, 0, batch * 10, 10 + batch * 10, 19 + batch * 10)
    assert is_older(states.check(PRODUCER, 0, MAX_SEQUENCE - 9, 10))


def is_older(answer: SequenceCheck) -> bool:
    return isinstance(answer, Refuse) and answer.is_older


@pytest.mark.parametrize(("base_sequence", "records"), [(10, 10), (10, 1), (0, 20), (0, 1)])
def test_what_is_older_than_five_batches_is_nobodys_retry(base_sequence: int, records: int) -> None:
    """A producer has at most five in flight.  Clients would take DUPLICATE_SEQUENCE_NUMBER for success."""
    answer = seven_batches().check(PRODUCER, 2, base_sequence, records)
    assert is_older(answer)
    assert isinstance(answer, Refuse)
    assert answer.error == "OUT_OF_ORDER_SEQUENCE_NUMBER"


@pytest.mark.parametrize("known", range(1, 5))
def test_a_state_from_a_file_has_fewer_batches(known: int) -> None:
    """Kafka's files have the newest one only.  What comes before may be a retry, which is in the log."""
    states = ProducerStates()
    for batch in range(7 - known, 7):
        states.record(PRODUCER, 2, batch * 10, 100 + batch * 10, 109 + batch * 10)
    answer = states.check(PRODUCER, 2, 10, 10)
    assert is_older(answer)
    assert isinstance(answer, Refuse)
    assert answer.error == "DUPLICATE_SEQUENCE_NUMBER"
    assert not is_older(states.check(PRODUCER, 2, 71, 1))


def test_a_copy_no_longer_follows() -> None:
    states = seven_batches()
    copied = states.copy()
    before = list(copied)
    states.record(PRODUCER, 2, 70, 170, 179)
    states.record(8, 0, 0, 180, 180)
    assert list(copied) == before
    copied.record(9, 0, 0, 170, 170)
    assert [summary.producer_id for summary in states] == [PRODUCER, 8]


def test_the_least_recently_writing_producer_is_forgotten_first() -> None:
    states = ProducerStates(max_producers=2)
    states.record(1, 0, 0, 0, 0)
    states.record(2, 0, 0, 1, 1)
    states.record(1, 0, 1, 2, 2)
    states.record(3, 0, 0, 3, 3)
    assert [summary.producer_id for summary in states] == [1, 3]
    assert len(states) == 2
    states.record(1, 0, 2, 4, 4)
    assert [summary.producer_id for summary in states] == [3, 1]


def test_clear_forgets_everything() -> None:
    states = seven_batches()
    states.clear()
    assert list(states) == []


def test_at_least_one_producer_must_fit() -> None:
    assert len(ProducerStates(max_producers=1)) == 0
    with pytest.raises(ValueError, match="max_producers: 0"):
        ProducerStates(max_producers=0)


def test_a_new_producer_id_is_drawn_until_it_is_unknown() -> None:
    states = ProducerStates()
    states.record(7, 0, 0, 0, 0)
    draws = iter([7, 7, 2**63 - 1])
    bits: list[int] = []

    def draw(count: int) -> int:
        bits.append(count)
        return next(draws)

    assert new_producer_id(states, draw) == 2**63 - 1
    assert bits == [63, 63, 63]


@given(
    st.lists(
        st.tuples(st.sampled_from(["send", "retry", "truncate"]), st.integers(1, 2), st.integers(1, 4)), max_size=60
    )
)
def test_every_batch_is_logged_once_and_state_follows_the_log(steps: list[tuple[str, int, int]]) -> None:
    """Producers that send in order and retry at will, over a log that may lose its tail."""
    log: list[tuple[int, int, int]] = []  # (producer id, base sequence, record count)
    states = ProducerStates()

    def rebuilt() -> ProducerStates:
        built, offset = ProducerStates(), 0
        for producer_id, base_sequence, count in log:
            built.record(producer_id, 0, base_sequence, offset, offset + count - 1)
            offset += count
        return built

    for step, producer_id, number in steps:
        written = [batch for batch in log if batch[0] == producer_id]
        if step == "truncate":
            del log[max(0, len(log) - number) :]
            states = rebuilt()
            continue
        if step == "retry" and written:
            retried = written[max(0, len(written) - number)]
            answer = states.check(producer_id, 0, retried[1], retried[2])
            assert isinstance(answer, Duplicate)
            assert answer.last_offset - answer.base_offset + 1 == retried[2]
            assert answer.base_offset == sum(batch[2] for batch in log[: log.index(retried)])
            continue
        base_sequence = written[-1][1] + written[-1][2] if written else 0
        assert states.check(producer_id, 0, base_sequence, number) == Accept()
        end = sum(batch[2] for batch in log)
        states.record(producer_id, 0, base_sequence, end, end + number - 1)
        log.append((producer_id, base_sequence, number))


def test_a_million_producer_ids_take_no_more_memory_than_the_limit() -> None:
    limit = 1_000
    states = ProducerStates(limit)
    empty = sys.getallocatedblocks()
    blocks = []
    for producer_id in range(10**6):
        states.record(producer_id, 0, 0, producer_id, producer_id)
        if producer_id % 100_000 == limit:
            blocks.append(sys.getallocatedblocks() - empty)
    assert len(states) == limit
    assert next(iter(states)).producer_id == 10**6 - limit
    # The first ones may be blocks that the interpreter had kept.
    assert 0 < max(blocks[1:]) <= 1.5 * blocks[1]
