"""Counts the keys and versions that the store looks at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kraft_trio.kv import store
from kraft_trio.kv.store import Store


@attrs.define
class LookedAt:
    """How many keys were looked at, by what `when` returned then: all in one by default."""

    when: Callable[[], int] = lambda: 0
    by_time: Counter[int] = attrs.field(factory=Counter)

    @property
    def keys(self) -> int:
        return self.by_time.total()

    def since(self) -> int:
        """How many since the last call."""
        keys = self.keys
        self.by_time.clear()
        return keys


def looked_at(monkeypatch: pytest.MonkeyPatch, when: Callable[[], int] = lambda: 0) -> LookedAt:
    """Count from now on."""
    counted = LookedAt(when)

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            counted.by_time[counted.when()] += 1
            return function(*arguments)

        return count

    monkeypatch.setattr(store, "_version_at", counting(store._version_at))
    for name in ("_is_kept", "delete", "_undo"):
        monkeypatch.setattr(Store, name, counting(getattr(Store, name)))
    return counted
