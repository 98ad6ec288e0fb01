"""The checker of histories: silent on what one log could have given, loud on everything else.

A history is a line of events of clients, here `a`.  It invokes an append of x (`a+x`), a linearizable read from offset
2 (`a<2`), or a read that need not be linearizable (`a~2`).  The append is acknowledged at offset 3 (`a=3`), fails
(`a!`), or has an unknown outcome (`a?`).  The read returned x and y from offset 2 on, and read up to offset 9
(`a=2:x,y/9`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.simulation.facts.committed import CommittedRecords
from kraft_trio.simulation.facts.history import History, Operation
from kraft_trio.simulation.invariants.linearizability import contradictions, effect_contradiction


def history_of(events: str) -> History:
    clock = count()
    history = History(lambda: float(next(clock)))
    latest: dict[str, Operation] = {}
    for event in events.split():
        parsed = re.fullmatch(r"(\w)([+=!?<~])(.*)", event)
        assert parsed, event
        client, what, rest = parsed.groups()
        match what:
            case "+":
                values = [value.encode() for value in rest.split(",")]
                latest[client] = history.invoke("append", client=client, values=values)
            case "<" | "~":
                latest[client] = history.invoke(
                    "read", client=client, from_offset=int(rest), is_linearizable=what == "<"
                )
            case "!":
                history.fail(latest[client], "")
            case "?":
                history.lose(latest[client], "")
            case "=" if "/" in rest:
                complete_read(history, latest[client], rest)
            case "=":
                history.succeed(latest[client], offsets=[int(offset) for offset in rest.split(",")])
    return history


def complete_read(history: History, read: Operation, text: str) -> None:
    given_text, end = text.split("/")
    records = [record.split(":") for record in given_text.split(",") if record]
    history.succeed(
        read,
        offsets=[int(offset) for offset, _ in records],
        values=[value.encode() for _, value in records],
        end_offset=int(end),
    )


def committed_of(text: str, end: int = 0) -> CommittedRecords:
    """One character an offset; `.` stands for a record of the protocol's own."""
    committed = CommittedRecords()
    for offset, character in enumerate(text):
        if character == ".":
            committed.advance(offset + 1)
        else:
            committed.append([character.encode()], offset)
    committed.advance(end)
    return committed


def found(events: str, log: str) -> list[str]:
    return [str(contradiction) for contradiction in contradictions(history_of(events).operations, committed_of(log))]


LEGAL = {
    "nothing at all": ("", ""),
    "one append": ("a+x a=1", ".x"),
    "a batch": ("a+x,y a=1,2", ".xy"),
    "what overlaps may commit in either order": ("a+x b+y a=2 b=1", ".yx"),
    "what overlaps may commit in either order, the other one": ("a+x b+y a=1 b=2", ".xy"),
    "an unknown append that is there": ("a+x a? b+y b=1 ", ".yx"),
    "an unknown append that is nowhere": ("a+x a? b+y b=1", ".y"),
    "one never answered that is there": ("a+x b+y b=1", ".yx"),
    "an unknown append may take effect after all that came later": ("a+x a? b+y b=1 c+z c=2", ".yzx"),
    "a failed append that is nowhere": ("a+x a! b+y b=1", ".y"),
    "a read of all": ("a+x a=1 b+y b=3 c<0 c=1:x,3:y/4", ".x.y"),
    "a read of a part": ("a+x a=1 b+y b=3 c<2 c=3:y/4", ".x.y"),
    "a read that ends behind the protocol's records": ("a+x a=1 c<0 c=1:x/4", ".x.."),
    "two reads whose ends differ by the protocol's records": ("a+x a=1 c<0 c=1:x/4 d<0 d=1:x/2", ".x.."),
    "a read sees an append that is not answered yet": ("a+x c<0 c=1:x/2 a=1", ".x"),
    "a read may miss an append that overlaps with it": ("a+x c<0 c=/1 a=1", ".x"),
    "a part of a batch, read by someone who asked for that": ("a+x,y a=1,2 c~0 c=1:x/2", ".xy"),
    "a read that is not linearizable may be late": ("a+x a=1 b+y b=2 c~0 c=1:x/2", ".xy"),
    "a read that failed says nothing": ("a+x a=1 c<0 c!", ".x"),
    "values that nobody in this history appended": ("a+x a=2", ".qx"),
}


@pytest.mark.parametrize("name", LEGAL)
def test_a_linearizable_history_has_no_contradiction(name: str) -> None:
    assert found(*LEGAL[name]) == []


ILLEGAL = {
    "an acknowledged append is lost": ("a+x a=1", ".y", "b'y' is committed there"),
    "an acknowledged append is replaced by the protocol's record": ("a+x a=1", "..", "no value is committed there"),
    "an acknowledged append is not committed": ("a+x a=1", ".", "only what is below offset 1 is committed"),
    "an acknowledged append stands elsewhere": ("a+x a=1", ".yx", "b'y' is committed there, b'x' at 2"),
    "an acknowledged append took effect twice": ("a+x a=1", ".xyx", "b'x' is committed 2 times, at 1, 3"),
    "an unknown append took effect twice": ("a+x a?", ".xx", "b'x' is committed 2 times"),
    "an append never answered took effect twice": ("a+x", ".xx", "b'x' is committed 2 times"),
    "a failed append took effect": ("a+x a!", ".x", "it is committed at 1"),
    "half of an acknowledged batch": ("a+x,y a=1,2", ".xz", "b'z' is committed there"),
    "half of an unknown batch": ("a+x,y a?", ".y", "of its 2 values, one batch, there are committed: at 1"),
    "a batch torn apart": ("a+x,y a?", ".xzy", "of its 2 values, one batch, there are committed: at 1, 3"),
    "a batch in the wrong order": ("a+x,y a?", ".yx", "there are committed: at 2, 1"),
    "a batch acknowledged with a gap": ("a+x,y a=1,3", ".xzy", "its 2 values, one batch, were answered 1, 3"),
    "too few offsets": ("a+x,y a=1", ".xy", "its 2 values, one batch, were answered 1"),
    "appends against real time": ("a+x a=2 b+y b=1", ".yx", "b/0 append over the network: b'y' at 1"),
    "one completed last does not make good for one completed before": (
        "a+x b+y a=3 b=1 c+z c=2",
        ".yzx",
        "c/0 append over the network: b'z' at 2",
    ),
    "an append against real time, of one client": ("a+x a=2 a+y a=1", ".yx", "a/1 append over the network"),
    "an unknown append that took effect before it was asked for": ("a+x a=2 b+y b?", ".yx", "took effect at 1"),
    "a stale read": ("a+x a=1 b+y b=2 c<0 c=1:x/2", ".xy", "invoked later, took effect at 2"),
    "two reads that go back": ("a+x c<0 c=1:x/2 d<0 d=/1 a=1", ".x", "d/0 read over the network from 0 to 1"),
    "a linearizable read behind one that is not": ("a+x c~0 c=1:x/2 d<0 d=/1 a=1", ".x", "d/0 read over the network"),
    "a read from the future": ("c<0 c=1:x/2 a+x a=1", ".x", "a/0 append over the network: b'x' at 1"),
    "even a late read reads nothing from the future": ("c~0 c=1:x/2 a+x a=1", ".x", "a/0 append over the network"),
    "a read of half a batch": ("a+x,y c<0 c=1:x/2 a=1,2", ".xy", "it ends within a/0 append"),
    "a read with a hole": ("c<0 c=1:x,3:z/4", ".xyz", "given b'z' as offset 3 where b'y' is committed, at 2"),
    "a read that ends early": ("c<0 c=1:x/4", ".xyz", "it was not given b'y', which is committed at 2"),
    "a read of something else": ("c<0 c=1:q/2", ".x", "given b'q' as offset 1 where b'x' is committed, at 1"),
    "a read of more than there is": ("c<0 c=1:x,2:q/3", ".x.", "given b'q' as offset 2, where nothing is committed"),
    "a read of what is not committed": ("c~0 c=1:x/2", ".", "only what is below offset 1 is committed"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_what_no_log_could_have_given_is_a_contradiction(name: str) -> None:
    events, log, fact = ILLEGAL[name]
    contradictions_found = found(events, log)
    assert contradictions_found, "nothing was found"
    assert fact in contradictions_found[0]


def test_an_appends_effect_is_compared_with_the_commits_then() -> None:
    (append,) = history_of("a+x a=1").operations
    early, late = committed_of("."), committed_of(".x")
    assert effect_contradiction(append, early) == next(contradictions([append], early))
    assert effect_contradiction(append, late) is None


def test_other_kinds_of_operations_do_not_affect_the_values() -> None:
    history = history_of("")
    history.succeed(history.invoke("add-voter", client="a"))
    assert list(contradictions(history.operations, committed_of(".x"))) == []


# Against the definition itself: some order of all operations, true to real time, in which one log gives every answer.


def is_linearizable(operations: Sequence[Operation], log: Sequence[bytes]) -> bool:
    """Tries every order.  An operation that was not acknowledged may be left out; the log is then what `log` says."""

    def search(state: tuple[bytes, ...], left: tuple[Operation, ...]) -> bool:
        if tuple(log[: len(state)]) != state:
            return False
        if not any(operation.outcome == "ok" for operation in left) and state == tuple(log):
            return True
        for operation in left:
            others = tuple(other for other in left if other is not operation)
            if any(
                other.completed_as is not None and other.outcome == "ok" and other.completed_as < operation.invoked_as
                for other in others
            ):
                continue
            after = after_of(state, operation)
            if after is not None and search(after, others):
                return True
        return False

    candidates = [operation for operation in operations if operation.outcome != "fail"]
    return search((), tuple(candidates))


def after_of(state: tuple[bytes, ...], operation: Operation) -> tuple[bytes, ...] | None:
    """The log after the operation; None where it could not have been answered so."""
    if operation.from_offset is None:
        answered = tuple(range(len(state), len(state) + len(operation.values)))
        return (*state, *operation.values) if operation.outcome != "ok" or operation.offsets == answered else None
    if operation.outcome != "ok":
        return state
    return state if operation.end_offset == len(state) and operation.values == state[operation.from_offset :] else None


@given(st.integers(0, 2**32))
def test_the_checker_agrees_with_trying_every_order(seed: int) -> None:
    source = random.Random(seed)
    history, log = random_history(source)
    committed = CommittedRecords()
    for offset, value in enumerate(log):
        committed.append([value], offset)
    expected = is_linearizable(history.operations, log)
    assert (not list(contradictions(history.operations, committed))) == expected


def random_history(source: random.Random) -> tuple[History, list[bytes]]:
    """A few overlapping operations on one log, some of them answered wrongly."""
    history, log = History(lambda: 0.0), list[bytes]()
    under_way: list[Operation] = []
    for number in range(source.randint(1, 5)):
        if source.random() < 0.6:
            values = [b"%d.%d" % (number, index) for index in range(source.randint(1, 2))]
            under_way.append(history.invoke("append", client="a", values=values))
        else:
            under_way.append(history.invoke("read", client="a", from_offset=0, is_linearizable=True))
        while under_way and source.random() < 0.6:
            complete(history, log, under_way.pop(source.randrange(len(under_way))), source)
    for operation in under_way:
        if operation.values and source.random() < 0.3:
            log += operation.values
    return history, log


def complete(history: History, log: list[bytes], operation: Operation, source: random.Random) -> None:
    wrong = source.choice((-1, 1)) if source.random() < 0.1 else 0
    if operation.from_offset is not None:
        end = max(0, len(log) + wrong)
        history.succeed(operation, offsets=range(min(end, len(log))), values=log[:end], end_offset=end)
        return
    first = max(0, len(log) + wrong)
    fate = source.choice(("ok", "ok", "ok", "fail", "there", "lost", "early"))
    if fate in {"ok", "there"}:
        log += operation.values
    if fate == "early":
        log[:0] = operation.values
    if fate in {"ok", "early"}:
        first = 0 if fate == "early" else first
        history.succeed(operation, offsets=range(first, first + len(operation.values)))
    elif fate == "fail":
        history.fail(operation, "")
    else:
        history.lose(operation, "")
