"""How far one message moves an epoch."""

from __future__ import annotations

import pytest

from kraft_trio.protocol.epoch_limits import (
    EPOCHS_AT_ONCE,
    EPOCHS_PER_S,
    LAST_ANSWERED_EPOCH,
    LAST_REQUESTED_EPOCH,
    MAX_EPOCH,
    EpochAllowance,
    highest_answered_epoch,
    highest_requested_epoch,
)


@pytest.mark.parametrize(
    ("own_epoch", "available", "highest"),
    [
        (0, EPOCHS_AT_ONCE, EPOCHS_AT_ONCE),
        (7, 0, 7),
        (7, 1, 8),
        (LAST_REQUESTED_EPOCH - 2, 100, LAST_REQUESTED_EPOCH),
        (LAST_REQUESTED_EPOCH - 1, 100, LAST_REQUESTED_EPOCH),
        (LAST_REQUESTED_EPOCH, 100, LAST_REQUESTED_EPOCH + 1),
        (LAST_REQUESTED_EPOCH + 1, 100, LAST_REQUESTED_EPOCH + 2),
        (LAST_REQUESTED_EPOCH, 0, LAST_REQUESTED_EPOCH),
        (MAX_EPOCH - 1, 100, MAX_EPOCH),
        (MAX_EPOCH, 100, MAX_EPOCH),
    ],
)
def test_highest_epoch_of_a_request(own_epoch: int, available: int, highest: int) -> None:
    assert highest_requested_epoch(own_epoch, available) == highest


@pytest.mark.parametrize(
    ("own_epoch", "highest"),
    [
        (0, LAST_ANSWERED_EPOCH),
        (LAST_REQUESTED_EPOCH, LAST_ANSWERED_EPOCH),
        (LAST_ANSWERED_EPOCH - 1, LAST_ANSWERED_EPOCH - 1 + EPOCHS_AT_ONCE),
        (LAST_ANSWERED_EPOCH + 1, LAST_ANSWERED_EPOCH + 1 + EPOCHS_AT_ONCE),
        (MAX_EPOCH - 1, MAX_EPOCH),
        (MAX_EPOCH, MAX_EPOCH),
    ],
)
def test_highest_epoch_of_an_answer(own_epoch: int, highest: int) -> None:
    assert highest_answered_epoch(own_epoch) == highest


def test_the_allowance_is_spent_and_refills() -> None:
    allowance = EpochAllowance(at_s=100.0)
    assert allowance.available(100.0) == EPOCHS_AT_ONCE
    spent = allowance.spend(EPOCHS_AT_ONCE, 100.0)
    assert spent.available(100.0) == 0
    assert spent.available(100.0 + 3 / EPOCHS_PER_S) == 3
    assert spent.available(1e9) == EPOCHS_AT_ONCE, "never more than the whole"
    assert spent.available(99.0) == 0, "a clock that goes back gives nothing"


def test_a_flood_of_requests_moves_no_faster_than_the_refill() -> None:
    """A request every millisecond for ten minutes, each for as much as it may take."""
    now_s, epoch, allowance = 0.0, 0, EpochAllowance(at_s=0.0)
    while now_s < 600:
        named = highest_requested_epoch(epoch, allowance.available(now_s))
        allowance, epoch = allowance.spend(named - epoch, now_s), named
        now_s += 0.001
    assert epoch <= EPOCHS_AT_ONCE + 600 * EPOCHS_PER_S


def test_elections_never_wait_for_each_other() -> None:
    """One election in every second of a day, each heard of as a request."""
    allowance = EpochAllowance(at_s=0.0)
    for second in range(24 * 3600):
        assert allowance.available(float(second)) >= 1
        allowance = allowance.spend(1, float(second))
