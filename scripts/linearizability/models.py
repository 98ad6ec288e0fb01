"""The objects of a history, registers, the log or the store, and what is wrong with the answers to their clients."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import attrs

from kraft_trio.simulation.facts.history_file import Entry
from scripts.linearizability.search import After, no_order
from scripts.linearizability.store_model import ON_THE_STORE, Store

ON_THE_LOG = ("append", "read")


class Register:
    """A value that is swapped, compared and swapped, or got."""

    initial: Hashable = None

    def step(self, state: Hashable, entry: Entry) -> After | None:
        verb, _, *arguments = entry.command
        is_known = entry.outcome == "ok"
        match verb:
            case "swap":
                return After(arguments[0]) if not is_known or entry.result == state else None
            case "cas":
                expected, value = arguments
                fits = state == expected
                return After(value if fits else state) if not is_known or entry.result == fits else None
            case "get":
                return After(state) if not is_known or entry.result == state else None
        raise ValueError(f"{entry}: unknown verb, expected swap, cas or get")


@attrs.frozen
class Log:
    """Values at rising offsets.  They are unique, so the history says at which offset each one is.

    Hence the state is no more than the end (exclusive) of the last value.
    """

    ends: dict[int, tuple[int, int]]
    """For each append, by when it was invoked, its first offset and its end (exclusive)."""
    initial: Hashable = 0

    def step(self, state: Hashable, entry: Entry) -> After | None:
        assert isinstance(state, int)
        if entry.command[0] == "append":
            first, end = self.ends[entry.invoked]
            return After(end) if first >= state else None
        if entry.result:
            return After(state) if entry.result[-1][0] + 1 == state else None
        return After(state) if state <= entry.command[1] else None


def violations(entries: Sequence[Entry]) -> Iterator[str]:
    """What no register and no log would have answered; nothing for a linearizable history."""
    log = [entry for entry in entries if entry.command[0] in ON_THE_LOG]
    if log:
        yield from _of_log(log)
    store = [entry for entry in entries if entry.command[0] in ON_THE_STORE and _may_matter(entry)]
    if store:
        problem = no_order(store, Store.of(store))
        if problem is not None:
            yield f"the store: {problem}"
    registers: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.command[0] not in (*ON_THE_LOG, *ON_THE_STORE):
            registers.setdefault(entry.command[1], []).append(entry)
    for key, used in sorted(registers.items()):
        problem = no_order(_without_unseen(used), Register())
        if problem is not None:
            yield f"register {key}: {problem}"


def _may_matter(entry: Entry) -> bool:
    return entry.outcome == "ok" or (entry.outcome == "unknown" and entry.command[0] != "range")


def _without_unseen(entries: Sequence[Entry]) -> list[Entry]:
    """Without the operations that did not happen, and those that nobody would have noticed.

    A write of unknown outcome may as well come after everything if nobody learned its value, nor that a register
    did not have an expected value.
    """
    seen = {entry.result for entry in entries if entry.outcome == "ok"}
    seen |= {entry.command[2] for entry in entries if entry.command[0] == "cas"}
    return [
        entry
        for entry in entries
        if entry.outcome == "ok"
        or (entry.outcome == "unknown" and entry.command[0] != "get" and (entry.command[-1] in seen or False in seen))
    ]


def _of_log(entries: Sequence[Entry]) -> Iterator[str]:
    appends = [entry for entry in entries if entry.command[0] == "append"]
    reads = [entry for entry in entries if entry.command[0] == "read" and entry.outcome == "ok"]
    offsets: dict[str, int] = {}
    values: dict[int, str] = {}
    problems = []

    def found(value: str, offset: int, entry: Entry) -> None:
        if offsets.setdefault(value, offset) != offset or values.setdefault(offset, value) != value:
            there = values.get(offset)
            problems.append(f"the log: {value!r} is at offset {offsets[value]}, {there!r} at {offset}; but {entry}")

    for entry in appends:
        if entry.outcome == "ok":
            for value, offset in zip(entry.command[1], entry.result, strict=True):
                found(value, offset, entry)
    for entry in reads:
        for offset, value in entry.result:
            found(value, offset, entry)
    appended = {value: entry for entry in appends for value in entry.command[1]}
    for value, offset in offsets.items():
        by = appended.get(value)
        if by is None or by.outcome == "fail":
            problems.append(f"the log: {value!r} is at offset {offset}; but {by or 'nobody appended it'}")
    ordered = sorted(values.items())
    for entry in reads:
        end = entry.result[-1][0] if entry.result else -math.inf
        expected = [[offset, value] for offset, value in ordered if entry.command[1] <= offset <= end]
        if [list(pair) for pair in entry.result] != expected:
            problems.append(f"the log: {entry}; but there are {expected}")
    placed = {entry.invoked: place for entry in appends if (place := _place(entry, offsets, problems)) is not None}
    if problems:
        yield from problems
        return
    problem = no_order([*reads, *(entry for entry in appends if entry.invoked in placed)], Log(placed))
    if problem is not None:
        yield f"the log: {problem}"


def _place(entry: Entry, offsets: dict[str, int], problems: list[Any]) -> tuple[int, int] | None:
    """The first offset of an append and its end (exclusive); None if nobody learned its values."""
    values = entry.command[1]
    firsts = {offsets[value] - index for index, value in enumerate(values) if value in offsets}
    if len(firsts) > 1:
        problems.append(f"the log: the values of one append are not one after the other: {entry}")
    return (min(firsts), min(firsts) + len(values)) if firsts else None
