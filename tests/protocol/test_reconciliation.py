"""Fetch positions judged by the leader, truncation by the follower, and that the two always end in equal logs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quorum_builders import at

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.epoch_cache import EpochCache
from kraft_trio.protocol.reconciliation import (
    Diverging,
    FetchPositionCheck,
    NeedsSnapshot,
    Valid,
    check_fetch_position,
    truncation_point,
)
from kraft_trio.protocol.types import OffsetAndEpoch

# epoch 1 at 0-9, epoch 3 at 10-14, epoch 4 at 15-19
ENTRIES = [(1, 0), (3, 10), (4, 15)]


def diverging(text: str) -> Diverging:
    return Diverging(at(text))


@pytest.mark.parametrize(
    ("position", "verdict"),
    [
        ("0@0", Valid()),
        ("0@9", Valid()),
        ("20@4", Valid()),
        ("16@4", Valid()),
        ("15@4", Valid()),
        ("15@3", Valid()),
        ("10@3", Valid()),
        ("10@1", Valid()),
        ("3@1", Valid()),
        ("21@4", diverging("20@4")),
        ("16@3", diverging("15@3")),
        ("11@1", diverging("10@1")),
        ("5@2", diverging("10@1")),
        ("12@2", diverging("10@1")),
        ("5@5", diverging("20@4")),
        ("25@7", diverging("20@4")),
        ("5@0", diverging("0@0")),
    ],
)
def test_fetch_position_without_snapshots(position: str, verdict: FetchPositionCheck) -> None:
    asked = at(position)
    for snapshot in (None, at("0@0")):
        assert verdict == check_fetch_position(
            asked.offset,
            asked.epoch,
            log_start_offset=0,
            log_end=at("20@4"),
            epochs=EpochCache(ENTRIES),
            earliest_snapshot_id=snapshot,
            latest_snapshot_id=snapshot,
        )


@pytest.mark.parametrize(
    ("position", "verdict"),
    [
        ("0@0", NeedsSnapshot(at("15@3"))),
        ("9@1", NeedsSnapshot(at("15@3"))),
        ("9@3", NeedsSnapshot(at("15@3"))),
        ("10@1", Valid()),
        ("10@3", NeedsSnapshot(at("15@3"))),
        ("10@0", NeedsSnapshot(at("15@3"))),
        ("12@0", NeedsSnapshot(at("15@3"))),
        ("12@1", diverging("10@1")),
        ("12@2", diverging("10@1")),
        ("12@3", Valid()),
        ("16@3", diverging("15@3")),
        ("20@4", Valid()),
    ],
)
def test_fetch_position_with_a_log_that_starts_at_a_snapshot(position: str, verdict: FetchPositionCheck) -> None:
    """The log starts at 10, right after the snapshot 10@1; a newer snapshot 15@3 exists."""
    asked = at(position)
    assert verdict == check_fetch_position(
        asked.offset,
        asked.epoch,
        log_start_offset=10,
        log_end=at("20@4"),
        epochs=EpochCache(ENTRIES[1:]),
        earliest_snapshot_id=at("10@1"),
        latest_snapshot_id=at("15@3"),
    )


def test_a_fetch_from_0_gets_the_snapshot_if_there_is_one() -> None:
    assert check_fetch_position(
        0,
        0,
        log_start_offset=0,
        log_end=at("20@4"),
        epochs=EpochCache(ENTRIES),
        earliest_snapshot_id=at("10@1"),
        latest_snapshot_id=at("15@3"),
    ) == NeedsSnapshot(at("15@3"))


def test_an_empty_log_behind_a_snapshot_ends_at_its_end() -> None:
    for position, verdict in [("10@3", Valid()), ("12@3", diverging("10@3")), ("12@5", diverging("10@3"))]:
        asked = at(position)
        assert verdict == check_fetch_position(
            asked.offset,
            asked.epoch,
            log_start_offset=10,
            log_end=at("10@3"),
            epochs=EpochCache(),
            earliest_snapshot_id=at("10@3"),
            latest_snapshot_id=at("10@3"),
        )


@pytest.mark.parametrize("start", [1, 10])
@pytest.mark.parametrize(
    ("earliest", "latest"), [(None, None), (at("0@0"), at("0@0")), (None, at("15@3")), (at("10@1"), None)], ids=str
)
def test_a_log_that_starts_above_0_has_a_snapshot_there(
    start: int, earliest: OffsetAndEpoch | None, latest: OffsetAndEpoch | None
) -> None:
    with pytest.raises(ValueError, match=f"log start offset {start}, but no snapshot ends there"):
        check_fetch_position(
            12,
            3,
            log_start_offset=start,
            log_end=at("20@4"),
            epochs=EpochCache(ENTRIES[1:]),
            earliest_snapshot_id=earliest,
            latest_snapshot_id=latest,
        )


@pytest.mark.parametrize(
    ("leader_said", "point"),
    [
        ("18@4", "18@4"),
        ("12@3", "12@3"),
        ("15@3", "15@3"),
        ("99@3", "15@3"),
        ("10@3", "10@1"),
        ("99@2", "10@1"),
        ("4@2", "10@1"),
        ("7@1", "7@1"),
        ("99@1", "10@1"),
        ("0@0", "0@0"),
    ],
)
def test_truncation_point(leader_said: str, point: str) -> None:
    assert truncation_point(EpochCache(ENTRIES), at("20@4"), at(leader_said)) == at(point)


def test_truncation_back_to_a_snapshot_knows_its_epoch() -> None:
    epochs = EpochCache(ENTRIES[1:])
    assert truncation_point(epochs, at("20@4"), at("10@2"), at("10@1")) == at("10@1")
    assert truncation_point(epochs, at("20@4"), at("10@3"), at("10@1")) == at("10@1")
    assert truncation_point(epochs, at("20@4"), at("18@4"), at("10@1")) == at("18@4")
    assert truncation_point(epochs, at("20@4"), at("15@3"), at("10@1")) == at("15@3")


@pytest.mark.parametrize("leader_said", ["20@4", "25@4", "20@5"])
def test_an_answer_that_drops_nothing_is_refused(leader_said: str) -> None:
    with pytest.raises(ProtocolError, match=r"nothing to drop"):
        truncation_point(EpochCache(ENTRIES), at("20@4"), at(leader_said))


# Logs as lists of (epoch, serial): one serial for each record ever written, so that equal entries mean equal bytes.
Log = list[tuple[int, int]]


@st.composite
def logs_by_legal_leaders(draw: st.DrawFn) -> tuple[Log, Log]:
    """A leader's log and a follower's: each epoch continues from a prefix of an earlier one, replicas hold prefixes."""
    serial = itertools.count()
    leaders: list[Log] = [[]]
    for epoch in range(1, draw(st.integers(1, 8)) + 1):
        behind = draw(st.sampled_from(leaders))
        begun_with = behind[: draw(st.integers(0, len(behind)))]
        leaders.append(begun_with + [(epoch, next(serial)) for _ in range(draw(st.integers(1, 4)))])
    follower = draw(st.sampled_from(leaders))
    return leaders[-1], follower[: draw(st.integers(0, len(follower)))]


def end_of(log: Log) -> OffsetAndEpoch:
    return OffsetAndEpoch(len(log), log[-1][0] if log else 0)


def epochs_of(log: Log) -> EpochCache:
    return EpochCache((epoch, offset) for offset, (epoch, _) in enumerate(log))


@given(logs_by_legal_leaders())
def test_any_two_logs_reconcile_to_equal_prefixes(logs: tuple[Log, Log]) -> None:
    leader, follower = logs
    common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(leader, follower, strict=False)))
    rounds_left = len(epochs_of(follower)) + 1
    while True:
        position = end_of(follower)
        verdict = check_fetch_position(
            position.offset, position.epoch, log_start_offset=0, log_end=end_of(leader), epochs=epochs_of(leader)
        )
        if isinstance(verdict, Valid):
            break
        assert isinstance(verdict, Diverging)
        point = truncation_point(epochs_of(follower), position, verdict.end)
        follower = follower[: point.offset]
        assert end_of(follower) == point
        rounds_left -= 1
        assert rounds_left > 0, "one round an epoch is enough"
    assert follower == leader[: len(follower)]
    assert len(follower) == common, "no record that both have is dropped"
