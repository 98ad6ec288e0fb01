"""Registers as a replicated state machine, whose commands are those of a history's lines."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from kraft_trio import Committed, NewRecord, Record

KEYS: Final = 3
"""How many registers are in use at a time."""
OPERATIONS_PER_KEY: Final = 60
"""After so many operations other registers are used, because longer histories are harder to check."""


def random_key(source: random.Random, operations: int) -> str:
    """One of the registers in use after so many operations."""
    return f"k{operations // (KEYS * OPERATIONS_PER_KEY) * KEYS + source.randrange(KEYS)}"


class Registers:
    """Values by key, which `kraft simulate --state-machine scripts.linearizability.registers:Registers` can test.

    A command is the JSON of ["swap", key, value] or ["cas", key, expected, value]."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._commands = 0
        """How many commands it has made for clients."""

    def apply(self, record: Committed[bytes]) -> Any:
        verb, key, *arguments = json.loads(record.value)
        before = self.values.get(key)
        if verb == "swap":
            self.values[key] = arguments[0]
            return before
        expected, value = arguments
        if before == expected:
            self.values[key] = value
        return before == expected

    def random_command(self, source: random.Random) -> bytes:
        """The next command of a client of a simulation.  Each value is written once."""
        self._commands += 1
        value = str(self._commands)
        if source.random() < 0.8:
            return json.dumps(["swap", self._random_key(source), value]).encode()
        expected = str(self._commands - source.randint(1, 2 * KEYS))
        return json.dumps(["cas", self._random_key(source), expected, value]).encode()

    def random_query(self, source: random.Random) -> list[str]:
        """The next query of a client of a simulation."""
        return ["get", self._random_key(source)]

    def answer(self, query: list[str]) -> Any:
        """The value of the register that the query names."""
        return self.values.get(query[1])

    def _random_key(self, source: random.Random) -> str:
        return random_key(source, self._commands)

    def save(self) -> Iterable[NewRecord]:
        return [NewRecord(json.dumps(value).encode(), key.encode()) for key, value in sorted(self.values.items())]

    async def load(self, records: AsyncIterator[Record]) -> None:
        self.values = {(record.key or b"").decode(): json.loads(record.value or b"") async for record in records}
