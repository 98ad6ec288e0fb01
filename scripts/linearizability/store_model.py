"""The key-value store as an object of a history: what it does when it is used by one client at a time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import attrs

from kraft_trio.simulation.facts.history_file import Entry
from scripts.linearizability.search import After

ON_THE_STORE = ("put", "delete", "txn", "range")

FIRST_REVISION = 1
"""The revision of an empty store."""


@attrs.frozen
class Store:
    """Keys with their values, and the revision, which grows by one with each change.

    A client is told the revision after its change, so the history says in which order the changes came.  A change of
    unknown outcome has a revision that nobody was told.
    """

    told: frozenset[int]
    """The revisions of the changes whose clients were answered."""
    last: int
    """The highest revision that any client was told."""
    initial: Hashable = (FIRST_REVISION, ())

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Store:
        answered = [entry for entry in entries if entry.outcome == "ok"]
        told = frozenset(entry.result[0] for entry in answered if _has_changed(entry))
        return cls(told, max((entry.result[0] for entry in answered), default=FIRST_REVISION))

    def step(self, state: Hashable, entry: Entry) -> After | None:
        assert isinstance(state, tuple)
        revision, items = state
        values = dict(items)
        verb, key, *arguments = entry.command
        if verb == "range":
            end = arguments[0]
            found = [[name, value] for name, value in items if name == key or (end and key <= name < end)]
            return After(state) if entry.result == [revision, found] else None
        told: str | bool | None = values.get(key)
        match verb:
            case "put":
                changes, values[key] = True, arguments[0]
            case "delete":
                changes = told is not None
                values.pop(key, None)
            case "txn":
                expected, value = arguments
                told = changes = told == expected
                if changes:
                    values[key] = value
            case _:
                raise ValueError(f"{entry}: unknown verb, expected {', '.join(ON_THE_STORE)}")
        revision += changes
        if entry.outcome == "ok":
            fits = entry.result == [revision, told]
        else:
            fits = not changes or revision > self.last or revision not in self.told
        return After((revision, tuple(sorted(values.items())))) if fits else None


def _has_changed(entry: Entry) -> bool:
    verb, (_, told) = entry.command[0], entry.result
    return verb == "put" or (verb == "delete" and told is not None) or (verb == "txn" and told is True)
