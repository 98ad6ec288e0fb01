"""The key-value store as an object of a history: what it does when it is used by one client at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from kraft_trio.simulation.facts.history_file import Entry
from scripts.linearizability.search import After

ON_THE_STORE = ("put", "delete", "txn", "range")

FIRST_REVISION: Final = 1
"""The revision of an empty store."""
UNSEEN: Final = b""
"""Stands for each value that nobody saw.  It equals none that somebody did."""


@attrs.frozen
class Turn:
    """The place of a write among those of unknown outcome that nobody could tell apart."""

    alike: int
    """Which of these groups it is in."""
    before: int
    """How many of the group were invoked before it."""


@attrs.frozen
class Store:
    """Keys with their values, and the revision, which grows by one with each change.

    A client is told the revision after its change, so the history says in which order the changes came.  A change of
    unknown outcome has a revision that nobody was told.

    Two rules leave few orders to try.  A write of unknown outcome that changes nothing is not in the order.  Writes of
    unknown outcome that differ only in a value that nobody saw are in the order of their invocations.  That excludes no
    answers: two such writes could change places, since neither is known to be complete.
    """

    told: frozenset[int]
    """The revisions of the changes whose clients were answered."""
    last: int
    """The highest revision that any client was told."""
    turns: Mapping[int, Turn]
    """By when the write was invoked."""
    initial: Hashable

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Store:
        answered = [entry for entry in entries if entry.outcome == "ok"]
        told = frozenset(entry.result[0] for entry in answered if _has_changed(entry))
        last = max((entry.result[0] for entry in answered), default=FIRST_REVISION)
        turns = _turns(entries)
        groups = 1 + max((turn.alike for turn in turns.values()), default=-1)
        return cls(told, last, turns, (FIRST_REVISION, (), (0,) * groups))

    def step(self, state: Hashable, entry: Entry) -> After | None:
        assert isinstance(state, tuple)
        revision, items, taken = state
        values = dict(items)
        verb, key, *arguments = entry.command
        if verb == "range":
            end = arguments[0]
            found = [[name, value] for name, value in items if name == key or (end and key <= name < end)]
            return After(state) if entry.result == [revision, found] else None
        turn = self.turns.get(entry.invoked)
        if turn is not None:
            if taken[turn.alike] != turn.before:
                return None
            taken = (*taken[: turn.alike], turn.before + 1, *taken[turn.alike + 1 :])
        told: str | bool | None = values.get(key)
        written = UNSEEN if turn is not None else arguments[-1] if arguments else None
        match verb:
            case "put":
                changes, values[key] = True, written
            case "delete":
                changes = told is not None
                values.pop(key, None)
            case "txn":
                told = changes = told == arguments[0]
                if changes:
                    values[key] = written
            case _:
                raise ValueError(f"{entry}: unknown verb, expected {', '.join(ON_THE_STORE)}")
        revision += changes
        if entry.outcome == "ok":
            fits = entry.result == [revision, told]
        else:
            fits = changes and (revision > self.last or revision not in self.told)
        return After((revision, tuple(sorted(values.items())), taken)) if fits else None


def _has_changed(entry: Entry) -> bool:
    verb, (_, told) = entry.command[0], entry.result
    return verb == "put" or (verb == "delete" and told is not None) or (verb == "txn" and told is True)


def _turns(entries: Sequence[Entry]) -> dict[int, Turn]:
    """Those of the writes of unknown outcome whose value, if any, nobody saw or expected."""
    seen = {value for entry in entries for value in _seen_by(entry)}
    groups: dict[tuple[str, ...], int] = {}
    sizes: Counter[int] = Counter()
    turns = {}
    for entry in sorted(entries, key=lambda entry: entry.invoked):
        verb, key, *arguments = entry.command
        if entry.outcome != "unknown" or verb == "range" or (arguments and arguments[-1] in seen):
            continue
        alike = groups.setdefault((verb, key, *arguments[:-1]), len(groups))
        turns[entry.invoked] = Turn(alike, sizes[alike])
        sizes[alike] += 1
    return turns


def _seen_by(entry: Entry) -> Iterator[str]:
    """The values in the command or its result that must be told from others."""
    verb, _, *arguments = entry.command
    if verb == "txn":
        yield arguments[0]
    if entry.outcome == "ok":
        told = entry.result[1]
        if verb == "range":
            yield from (value for _, value in told)
        elif isinstance(told, str):
            yield told
