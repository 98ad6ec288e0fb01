"""Looks for an order of a history's operations in which one object, used by one client at a time, gives all answers.

The algorithm is Wing and Gong's (1993), and remembers what it has tried, as Lowe's does (2017).  The next operation in
the order is one that was invoked before any of those that are left was completed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, Protocol

import attrs

from kraft_trio.simulation.facts.history_file import Entry

SHOWN: Final = 5


@attrs.frozen
class After:
    """What a step leads to."""

    state: Hashable


class Model(Protocol):
    """What an object does when it is used by one client at a time."""

    @property
    def initial(self) -> Hashable: ...

    def step(self, state: Hashable, entry: Entry) -> After | None:
        """The effect of an operation; None if the object would have answered something else."""
        ...


def no_order(entries: Sequence[Entry], model: Model) -> str | None:
    """Why no order gives these answers; None if there is one.  `entries` have not failed."""
    ordered = sorted(entries, key=lambda entry: entry.invoked)
    tried: set[tuple[int, Hashable]] = set()
    most, stuck = -1, list[Entry]()
    stack: list[tuple[int, Iterator[tuple[int, Hashable]]]] = []
    done, count, state = 0, 0, model.initial
    while True:
        candidates = _candidates(ordered, done)
        if not candidates:
            return None
        if count > most:
            most, stuck = count, [ordered[index] for index in candidates]
        stack.append((count, _steps(ordered, candidates, done, state, model)))
        while stack:
            before_count, steps = stack[-1]
            following = next((step for step in steps if step not in tried), None)
            if following is not None:
                tried.add(following)
                (done, state), count = following, before_count + 1
                break
            stack.pop()
        else:
            shown = "\n".join(f"  {entry}" for entry in stuck[:SHOWN])
            return f"{most} of {len(ordered)} operations have an order; after them, none of these fits:\n{shown}"


def _steps(
    ordered: Sequence[Entry], candidates: Sequence[int], done: int, state: Hashable, model: Model
) -> Iterator[tuple[int, Hashable]]:
    """What is done after each of the candidates, as bits, and the state then."""
    for index in candidates:
        after = model.step(state, ordered[index])
        if after is not None:
            yield done | 1 << index, after.state


def _candidates(ordered: Sequence[Entry], done: int) -> list[int]:
    """The operations that may come next; none once all that are known to have happened are done."""
    found: list[int] = []
    earliest: float = math.inf
    index = (~done & (done + 1)).bit_length() - 1
    while index < len(ordered) and ordered[index].invoked < earliest:
        if not done >> index & 1:
            found.append(index)
            completed = ordered[index].completed
            earliest = min(earliest, math.inf if completed is None else completed)
        index += 1
    return [] if earliest == math.inf else found
