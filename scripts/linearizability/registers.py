"""Registers as a replicated state machine, whose commands are those of a history's lines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

from kraft_trio import Committed, NewRecord, Record


class Registers:
    """Values by key.  A command is the JSON of ["swap", key, value] or ["cas", key, expected, value]."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

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

    def save(self) -> Iterable[NewRecord]:
        return [NewRecord(json.dumps(value).encode(), key.encode()) for key, value in sorted(self.values.items())]

    async def load(self, records: AsyncIterator[Record]) -> None:
        self.values = {(record.key or b"").decode(): json.loads(record.value or b"") async for record in records}
