"""Counts the keys that the store looks at."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kraft_trio.kv import store


@attrs.define
class LookedAt:
    """How many keys the store has looked at."""

    keys: int = 0

    def since(self) -> int:
        """How many since the last call."""
        keys, self.keys = self.keys, 0
        return keys


def looked_at(monkeypatch: pytest.MonkeyPatch) -> LookedAt:
    """Count from now on."""
    counted, version_at = LookedAt(), store._version_at

    def counting(*arguments: Any) -> Any:
        counted.keys += 1
        return version_at(*arguments)

    monkeypatch.setattr(store, "_version_at", counting)
    return counted
