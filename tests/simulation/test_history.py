"""What a history notes, and that it refuses what would make it useless as evidence."""

from __future__ import annotations

import pytest

from kraft_trio.simulation.facts.history import History, Operation, Outcome


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_operations_are_told_at_invocation_and_at_completion() -> None:
    clock, told = Clock(), list[tuple[str, Outcome, float | None]]()

    def tell(operation: Operation) -> None:
        told.append((operation.name, operation.outcome, operation.completed_at_s))

    history = History(clock, tell)
    first = history.invoke("append", client="a", values=[b"1"])
    clock.now_s = 0.5
    second = history.invoke("append", client="a", values=[b"2"], via=3)
    history.lose(second, "no answer")
    clock.now_s = 2.0
    history.succeed(first, offsets=[7])
    assert told == [
        ("a/0", Outcome.PENDING, None),
        ("a/1", Outcome.PENDING, None),
        ("a/1", Outcome.UNKNOWN, 0.5),
        ("a/0", Outcome.OK, 2.0),
    ]
    assert history.operations == [first, second]
    assert (first.invoked_as, second.invoked_as, second.completed_as, first.completed_as) == (1, 2, 3, 4)


def test_numbers_are_of_one_client() -> None:
    history = History(Clock())
    names = [history.invoke("read", client=client, from_offset=0).name for client in "abba"]
    assert names == ["a/0", "b/0", "b/1", "a/1"]


def test_known_commits_grow_only_by_acknowledgements_and_reads() -> None:
    history = History(Clock())
    appends = [history.invoke("append", client="a", values=[b"%d" % index]) for index in range(4)]
    history.lose(appends[0], "")
    history.fail(appends[1], "")
    assert history.known_end == 0
    history.succeed(appends[2], offsets=[5])
    history.succeed(appends[3], offsets=[3])
    assert history.known_end == 6
    read = history.invoke("read", client="b", from_offset=0)
    history.succeed(read, offsets=[3, 5, 8], values=[b"3", b"2", b"0"], end_offset=20)
    assert history.known_end == 9


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([b"new", b"old"], r"values\[1\]: b'old' is appended by a/0 already; expected a unique value"),
        ([b"new", b"new"], r"values\[1\]: b'new' is appended by this append already; expected a unique value"),
    ],
)
def test_a_value_is_appended_by_one_operation_only(values: list[bytes], message: str) -> None:
    history = History(Clock())
    old = history.invoke("append", client="a", values=[b"old"])
    with pytest.raises(ValueError, match=message):
        history.invoke("append", client="b", values=values)
    assert history.operations == [old]
    assert history.append_of(b"old") is old
    assert history.append_of(b"new") is None


def test_an_operation_is_completed_once() -> None:
    history = History(Clock())
    operation = history.invoke("append", client="a", values=[b"1"])
    history.fail(operation, "refused")
    with pytest.raises(AssertionError):
        history.succeed(operation, offsets=[1])
    assert (operation.outcome, operation.offsets, history.known_end) == (Outcome.FAIL, (), 0)


def test_an_operation_says_who_did_what_and_what_came_of_it() -> None:
    clock = Clock()
    history = History(clock)
    append = history.invoke("append", client="a", values=[b"x", b"y"], via=2)
    assert str(append) == "a/0 append in node 2: b'x' b'y', invoked at 0.000000 s, not answered"
    clock.now_s = 1.25
    history.succeed(append, offsets=[4, 5])
    assert str(append) == "a/0 append in node 2: b'x' b'y' at 4..5, invoked at 0.000000 s, ok at 1.250000 s"
    long = history.invoke("append", client="a", values=[b"x/7" + b" " * 97])
    assert "b'x/7'… (100 bytes)" in str(long)
    read = history.invoke("read", client="b", from_offset=3)
    history.fail(read, "no leader")
    assert str(read) == (
        "b/0 read over the network from 3: no value, invoked at 1.250000 s, fail at 1.250000 s (no leader)"
    )


def test_counts_are_by_kind_and_outcome() -> None:
    history = History(Clock())
    for value in (b"1", b"2", b"3"):
        history.succeed(history.invoke("append", client="a", values=[value]), offsets=[0])
    history.fail(history.invoke("read", client="a", from_offset=0), "")
    history.invoke("append", client="a", values=[b"4"])
    assert history.count("append", Outcome.OK) == 3
    assert history.count("append", Outcome.PENDING) == 1
    assert history.count("read", Outcome.OK) == 0
    assert history.count("read", Outcome.FAIL) == 1
