"""Which tests with the marker `rotating` belong to this commit's part of the default run."""

from __future__ import annotations

from collections import Counter

import pytest


class Rotation:
    """Numbers the marked tests, and takes one number of every `parts`, so that all parts are of one size."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._tests: Counter[int] = Counter()
        self._files: dict[int, dict[object, int]] = {}

    def covers(self, item: pytest.Item) -> bool:
        """Return whether the test belongs to the part; call this once for each test, in the order of collection."""
        marker = item.get_closest_marker("rotating")
        if marker is None:
            return True
        [parts] = marker.args
        if marker.kwargs.get("by_file"):
            files = self._files.setdefault(parts, {})
            number = files.setdefault(item.path, len(files))
        else:
            number = self._tests[parts]
            self._tests[parts] += 1
        return number % parts == self._base % parts
