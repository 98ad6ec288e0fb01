"""Histories as files, for `scripts/check-linearizability`: one JSON object a line, one line an operation.

| member | content |
|---|---|
| `client` | the name of the client; it has one operation at a time |
| `kind` | `execute`, `append`, `read`, `barrier-read`, `lease-read` or `gateway`: how it was asked for |
| `command` | an array: the verb and its arguments |
| `outcome` | `ok`, `fail` (it has not happened and never will), or `unknown` (it may have happened, or may yet, once) |
| `result` | what the client was told; null unless the outcome is `ok` |
| `invoked` | a whole number, smaller for what came earlier; only the order counts |
| `completed` | likewise; null if the outcome is `unknown` |

Commands act on a register, which is null at first, on the log, or on a key-value store, which is empty at first:

| command | result |
|---|---|
| `["swap", key, value]` | the value before; each value is written once |
| `["cas", key, expected, value]` | whether the register had the expected value, and was given the new one |
| `["get", key]` | the value |
| `["append", [value, …]]` | the offsets of the values, which follow each other; each value is appended once |
| `["read", offset]` | `[[offset, value], …]`, every value of the log from that offset on |
| `["put", key, value]` | `[revision, the value before]`; null if there was none |
| `["delete", key]` | likewise |
| `["txn", key, expected, value]` | `[revision, whether]` the key had the expected value, and was given the new one |
| `["range", key, end]` | `[revision, [[key, value], …]]`, up to `end` (exclusive); of one key if `end` is null |

The revision of an empty store is 1, and each change adds 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from kraft_trio.errors import ConfigError
from kraft_trio.simulation.facts.committed import CommittedRecords
from kraft_trio.simulation.facts.history import BARRIER_READ, LEASE_READ, NOT_TOLD, QUERY, Operation, Outcome


@attrs.frozen
class Entry:
    """One operation of a history.  The members are those of its line."""

    client: str
    kind: str
    command: Sequence[Any]
    outcome: str
    result: Any
    invoked: int
    completed: int | None

    def __str__(self) -> str:
        verb, *arguments = self.command
        answer = f" -> {json.dumps(self.result)}" if self.outcome == "ok" else f", {self.outcome}"
        text = f"{verb} {', '.join(map(json.dumps, arguments))}{answer}"
        return f"{self.client} from {self.invoked} to {self.completed or 'the end'}, {self.kind}: {text}"


OUTCOMES: Final = ("ok", "fail", "unknown")


def write_history(path: str | Path, entries: Iterable[Entry]) -> None:
    """Raises OSError."""
    with open(path, "w", encoding="utf-8") as file:
        for entry in entries:
            file.write(json.dumps(attrs.asdict(entry), separators=(",", ":")) + "\n")


def read_history(path: str | Path) -> list[Entry]:
    """Raises OSError, and ValueError with the number of a line that is not one of a history."""
    entries = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = Entry(**json.loads(line))
                assert entry.outcome in OUTCOMES, f"outcome: {entry.outcome!r}"
                assert entry.completed is not None or entry.outcome != "ok", "completed: null, but the outcome is ok"
            except (ValueError, TypeError, AssertionError) as error:
                raise ValueError(f"{path}: line {number}: {error}") from error
            entries.append(entry)
    return entries


def entries_of(operations: Sequence[Operation], committed: CommittedRecords) -> Iterator[Entry]:
    """The commands and queries of a simulated run's clients, if they use a state machine.

    Otherwise their appends and linearizable reads, and at the end a read of all that was committed.  Raises ConfigError
    for a command that is no JSON array.
    """
    if any(operation.command is not None for operation in operations):
        for operation in operations:
            if operation.command is not None:
                yield _entry(operation, _array(operation.command), operation.result)
        return
    for operation in operations:
        if operation.from_offset is not None and operation.is_linearizable and operation.outcome is Outcome.OK:
            given = list(zip(operation.offsets, map(_text, operation.values), strict=True))
            yield _entry(operation, ["read", operation.from_offset], given)
        elif operation.from_offset is None and operation.values:
            yield _entry(operation, ["append", [*map(_text, operation.values)]], list(operation.offsets))
    last = max((operation.completed_as or operation.invoked_as for operation in operations), default=0)
    everything = [(offset, _text(value)) for offset, value in committed.between(0, committed.end)]
    yield Entry("the log", "read", ["read", 0], "ok", everything, last + 1, last + 2)


def _entry(operation: Operation, command: Sequence[Any], result: Any) -> Entry:
    is_open = operation.outcome is Outcome.PENDING or (operation.outcome is Outcome.OK and result is NOT_TOLD)
    outcome = "unknown" if is_open else str(operation.outcome)
    is_ok = outcome == "ok"
    completed = None if outcome == "unknown" else operation.completed_as
    return Entry(
        operation.client, _kind(operation), command, outcome, result if is_ok else None, operation.invoked_as, completed
    )


def _kind(operation: Operation) -> str:
    if operation.is_by_lease:
        return LEASE_READ
    return BARRIER_READ if operation.kind == QUERY else operation.kind


def _array(command: object) -> Sequence[Any]:
    try:
        found = json.loads(command) if isinstance(command, bytes) else command
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise ConfigError(f"history: {command!r} given, expected a command or query that is a JSON array")
    return found


def _text(value: bytes) -> str:
    return value.decode("latin-1")
