"""A replica whose Fetch position falls lacks records that it had acknowledged, unless the Fetch came late."""

from __future__ import annotations

import pytest

from kraft_trio.protocol.acknowledged_end import AcknowledgedEnd, CameBack


def after(*fetches: tuple[int, str | None]) -> tuple[AcknowledgedEnd, list[CameBack]]:
    """The state after Fetches from these offsets, each on the connection of that name."""
    connections: dict[str, object] = {}
    end, returns = AcknowledgedEnd(), []
    for offset, name in fetches:
        connection = None if name is None else connections.setdefault(name, object())
        if (returned := end.fetches(offset, connection)) is not None:
            returns.append(returned)
    return end, returns


@pytest.mark.parametrize(
    "fetches",
    [
        [(5, "a"), (5, "a"), (7, "a")],
        [(5, "a"), (5, "b"), (7, "b")],
        [(5, "a"), (7, "b"), (5, "a"), (7, "b"), (8, "b")],  # The Fetch on "a" came late.
        [(5, "a"), (7, "b"), (5, "c"), (6, "d"), (8, "b")],  # Two were delivered twice, each on its own connection.
        [(5, None), (3, None), (3, None)],  # Without a connection, nothing is certain.
    ],
)
def test_replica_that_keeps_its_promises_lacks_nothing(fetches: list[tuple[int, str | None]]) -> None:
    end, returns = after(*fetches)
    assert (end.is_lacking, returns) == (False, [])
    assert end.offset == max(offset for offset, _ in fetches)


def test_replica_that_comes_back_with_less_is_blank_until_it_has_caught_up() -> None:
    end, returns = after((9, "a"), (4, "b"))
    assert (end.is_lacking, returns) == (False, [])
    end, returns = after((9, "a"), (4, "b"), (6, "b"))
    assert (end.is_lacking, returns) == (True, [CameBack(4, 9)])
    end, returns = after((9, "a"), (4, "b"), (6, "b"), (8, "c"), (8, "c"))
    assert (end.is_lacking, end.offset, returns) == (True, 9, [CameBack(4, 9)])
    end, returns = after((9, "a"), (4, "b"), (6, "b"), (8, "c"), (9, "c"))
    assert (end.is_lacking, returns) == (False, [CameBack(4, 9)])


def test_replica_that_catches_up_at_once_came_back_with_less_nevertheless() -> None:
    end, returns = after((9, "a"), (4, "b"), (11, "b"))
    assert (end.is_lacking, end.offset, returns) == (False, 11, [CameBack(4, 9)])


def test_each_return_is_noticed() -> None:
    _, returns = after((9, "a"), (4, "b"), (9, "b"), (9, "b"), (2, "c"), (9, "c"))
    assert returns == [CameBack(4, 9), CameBack(2, 9)]


def test_other_process_that_fetches_meanwhile_hides_no_return() -> None:
    _, returns = after((9, "a"), (4, "b"), (10, "a"), (6, "b"))
    assert returns == [CameBack(4, 10)]
