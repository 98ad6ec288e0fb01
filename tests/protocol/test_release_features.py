"""The feature levels of Kafka's releases."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kraft_trio.protocol.release_features import (
    LATEST,
    METADATA_VERSIONS,
    default_levels,
    is_level,
    metadata_version_of,
    name_of_level,
)


@pytest.mark.parametrize(
    ("release", "metadata_version"),
    [
        ("3.3", "3.3-IV3"),
        ("3.9.1", "3.9-IV0"),
        ("4.0", "4.0-IV3"),
        ("4.1-IV0", "4.1-IV0"),
        ("4.4.0", "4.4-IV2"),
        ("3.2", None),
        ("4", None),
        ("4.1-IV7", None),
        ("4.1.", None),
        ("99.9", None),
        ("", None),
    ],
)
def test_release_stands_for_its_last_metadata_version(release: str, metadata_version: str | None) -> None:
    assert metadata_version_of(release) == metadata_version


def test_levels_of_metadata_version_have_no_gap() -> None:
    assert list(METADATA_VERSIONS.values()) == list(range(7, 34))
    assert (LATEST, name_of_level(33)) == ("4.4-IV2", "4.4-IV2")


def test_levels_never_fall_with_a_release() -> None:
    told = [default_levels(name) for name in METADATA_VERSIONS]
    for before, after in pairwise(told):
        assert all(before[name] <= after[name] for name in before)
    assert set(told[0].values()) == {0}


@pytest.mark.parametrize(
    ("name", "level", "expected"),
    [
        ("metadata.version", 7, True),
        ("metadata.version", 6, False),
        ("metadata.version", 34, False),
        ("transaction.version", 1, True),  # no release has it by default
        ("kraft.version", 2, False),
        ("x", 0, False),
    ],
)
def test_levels_that_exist(name: str, level: int, expected: bool) -> None:
    assert is_level(name, level) is expected
