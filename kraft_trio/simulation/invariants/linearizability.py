"""Whether a single log could have produced a history, with its operations one after the other in real time.

Every value is unique, and the log gives every append its offsets.  So the order of the appends is known, and need not
be searched for, as it must be for a register.  Three checks remain:

1. Effect.  An acknowledged append is at the offsets that were answered, whole and once.  A failed append is nowhere.
   An append of unknown outcome is there once or not at all.  A read returned exactly what is committed in its range.
2. Order.  If one operation was completed before another one was invoked, the first has the lower place.  An append
   takes the places of its offsets.  A linearizable read takes the place after the last value below the offset up to
   which it read.  As the order of effects is known, linearizability (Herlihy and Wing, 1990) comes down to this rule
   for all such pairs.  Any other read may be late, but what it returned is there for every later operation.
3. Whole batches.  A linearizable read does not end within an append.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from kraft_trio.simulation.facts.committed import CommittedRecords
from kraft_trio.simulation.facts.history import Operation, Outcome


@attrs.frozen
class Contradiction:
    """Two facts that cannot both be true of one run."""

    fact: str
    other: str

    def __str__(self) -> str:
        return f"{self.fact}; but {self.other}"


def contradictions(operations: Sequence[Operation], committed: CommittedRecords) -> Iterator[Contradiction]:
    """All contradictions in a history, compared with everything that was committed by the end; none if it is
    linearizable."""
    yield from order_contradictions(operations, committed)
    yield from _torn_reads(operations, committed)
    for operation in operations:
        found = effect_contradiction(operation, committed)
        if found is not None:
            yield found


def effect_contradiction(operation: Operation, committed: CommittedRecords) -> Contradiction | None:
    """The contradiction in the effect of one operation, as far as it is committed by now.

    This may be checked at any moment: an append is acknowledged, and a value returned by a read, only after it is
    committed.
    """
    if operation.from_offset is not None:
        return _read_contradiction(operation, committed)
    if operation.values:
        return _append_contradiction(operation, committed)
    return None


def _append_contradiction(operation: Operation, committed: CommittedRecords) -> Contradiction | None:
    places = [tuple(committed.offsets_of(value)) for value in operation.values]
    for value, offsets in zip(operation.values, places, strict=True):
        if len(offsets) > 1:
            return Contradiction(str(operation), f"{value!r} is committed {len(offsets)} times, at {_list(offsets)}")
    if operation.outcome is Outcome.OK:
        return _acknowledged_contradiction(operation, places, committed)
    there = [offsets[0] for offsets in places if offsets]
    if there and operation.outcome is Outcome.FAIL:
        return Contradiction(str(operation), f"it is committed at {_list(there)}")
    if there and there != list(range(there[0], there[0] + len(operation.values))):
        return Contradiction(
            str(operation), f"of its {len(operation.values)} values, one batch, there are committed: at {_list(there)}"
        )
    return None


def _acknowledged_contradiction(
    operation: Operation, places: Sequence[tuple[int, ...]], committed: CommittedRecords
) -> Contradiction | None:
    first = operation.offsets[0] if operation.offsets else 0
    if operation.offsets != tuple(range(first, first + len(operation.values))):
        return Contradiction(
            str(operation), f"its {len(operation.values)} values, one batch, were answered {_list(operation.offsets)}"
        )
    for value, offset, offsets in zip(operation.values, operation.offsets, places, strict=True):
        if offsets == (offset,):
            continue
        if offset >= committed.end:
            return Contradiction(str(operation), f"only what is below offset {committed.end} is committed")
        there = committed.value_at(offset)
        stands = f"{there!r} is committed there" if there is not None else "no value is committed there"
        where = f", {value!r} at {_list(offsets)}" if offsets else ""
        return Contradiction(str(operation), f"at offset {offset}: {stands}{where}")
    return None


def _read_contradiction(operation: Operation, committed: CommittedRecords) -> Contradiction | None:
    if operation.outcome is not Outcome.OK:
        return None
    assert operation.from_offset is not None
    assert operation.end_offset is not None, "a read that is ok says up to where it read"
    if operation.end_offset > committed.end:
        return Contradiction(str(operation), f"only what is below offset {committed.end} is committed")
    given = list(zip(operation.offsets, operation.values, strict=True))
    expected = committed.between(operation.from_offset, operation.end_offset)
    if given == expected:
        return None
    for got, there in zip(given, expected, strict=False):
        if got != there:
            return Contradiction(
                str(operation),
                f"it was given {got[1]!r} as offset {got[0]} where {there[1]!r} is committed, at {there[0]}",
            )
    if len(given) > len(expected):
        offset, value = given[len(expected)]
        return Contradiction(str(operation), f"it was given {value!r} as offset {offset}, where nothing is committed")
    offset, value = expected[len(given)]
    return Contradiction(str(operation), f"it was not given {value!r}, which is committed at {offset}")


@attrs.frozen
class _Place:
    """The place of an operation among the effects: from `first` to `end` (exclusive).  A read takes no space."""

    first: int
    end: int


def order_contradictions(operations: Sequence[Operation], committed: CommittedRecords) -> Iterator[Contradiction]:
    """Pairs in which an operation that was completed before another one began has the higher place.

    At most one pair for each later operation.
    """
    placed = [(operation, place) for operation in operations if (place := _place(operation, committed)) is not None]
    completed = sorted(
        ((operation.completed_as, operation, place) for operation, place in placed if operation.outcome is Outcome.OK),
        key=lambda member: member[0] or 0,
    )
    highest: tuple[Operation, _Place] | None = None
    index = 0
    for operation, place in sorted(placed, key=lambda member: member[0].invoked_as):
        while index < len(completed) and (completed[index][0] or 0) < operation.invoked_as:
            _, earlier, earlier_place = completed[index]
            if highest is None or earlier_place.end > highest[1].end:
                highest = (earlier, earlier_place)
            index += 1
        if operation.is_linearizable and highest is not None and place.first < highest[1].end:
            yield Contradiction(
                f"{highest[0]}, with its effect below offset {highest[1].end}",
                f"{operation}, invoked later, took effect at {place.first}",
            )


def _torn_reads(operations: Sequence[Operation], committed: CommittedRecords) -> Iterator[Contradiction]:
    appends = {value: append for append in operations if append.from_offset is None for value in append.values}
    for read in operations:
        if read.end_offset is None or not read.is_linearizable:
            continue
        last, following = committed.value_at(read.end_offset - 1), committed.value_at(read.end_offset)
        append = None if following is None else appends.get(following)
        if append is not None and last in append.values:
            yield Contradiction(str(read), f"it ends within {append}, one batch")


def _place(operation: Operation, committed: CommittedRecords) -> _Place | None:
    """The place of an operation; None if it has no known effect in the log."""
    if operation.from_offset is not None:
        end = operation.end_offset
        if end is None:
            return None
        # Two ends without a value between them are one place.
        end = committed.end_of_values(end)
        return _Place(end, end)
    offsets: Sequence[int] = operation.offsets
    if operation.outcome is not Outcome.OK:
        offsets = [offset for value in operation.values for offset in committed.offsets_of(value)]
    return _Place(min(offsets), max(offsets) + 1) if offsets else None


def _list(offsets: Sequence[int]) -> str:
    return ", ".join(map(str, offsets)) or "none"
