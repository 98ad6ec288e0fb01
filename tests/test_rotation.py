"""The parts of the default run: together they are all tests, and each test belongs to one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.support.rotation import Rotation

PARTS = 3


@attrs.frozen
class MarkedItem:
    path: Path
    markers: tuple[pytest.MarkDecorator, ...] = ()

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((marker.mark for marker in self.markers if marker.name == name), None)


def covered(base: int, items: list[Any]) -> list[int]:
    rotation = Rotation(base)
    return [index for index, item in enumerate(items) if rotation.covers(item)]


def test_each_test_belongs_to_one_part() -> None:
    items = [MarkedItem(Path("test_a.py"), (pytest.mark.rotating(PARTS),)) for _ in range(7)]
    parts = [covered(base, items) for base in range(PARTS)]
    assert sorted(index for part in parts for index in part) == list(range(7))
    assert [len(part) for part in parts] == [3, 2, 2]
    assert covered(PARTS, items) == parts[0]


def test_a_part_by_file_has_all_tests_of_a_file() -> None:
    by_file = pytest.mark.rotating(PARTS, by_file=True)
    items = [MarkedItem(Path(f"test_{name}.py"), (by_file,)) for name in "aabcccd"]
    assert [covered(base, items) for base in range(PARTS)] == [[0, 1, 6], [2], [3, 4, 5]]


def test_a_test_without_the_marker_belongs_to_every_part() -> None:
    assert [covered(base, [MarkedItem(Path("test_a.py"))]) for base in range(PARTS)] == [[0]] * PARTS
