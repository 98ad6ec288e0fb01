"""Which levels of its features a release of Apache Kafka finalizes, and which they depend on (KIP-1022, KIP-584).

The table is that of Kafka 4.4's MetadataVersion and Feature.  A metadata.version is named after the release that it
first came with, and each release has the level of its last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kraft_trio.protocol.features import KRAFT_VERSION

METADATA_VERSION: Final = "metadata.version"

_NAMES: Final = """
    3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0
    3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0 4.4-IV0 4.4-IV1 4.4-IV2
"""
_FIRST_LEVEL: Final = 7
METADATA_VERSIONS: Final[Mapping[str, int]] = {name: level for level, name in enumerate(_NAMES.split(), _FIRST_LEVEL)}
"""The level of each metadata.version by its name, ascending."""
LATEST: Final = max(METADATA_VERSIONS, key=lambda name: METADATA_VERSIONS[name])

_SINCE: Final[Mapping[str, Mapping[int, str]]] = {
    KRAFT_VERSION: {1: "3.9-IV0"},
    "transaction.version": {2: "4.0-IV2"},
    "group.version": {1: "4.0-IV0"},
    "eligible.leader.replicas.version": {1: "4.1-IV0"},
    "share.version": {1: "4.2-IV0", 2: "4.4-IV0"},
    "streams.version": {1: "4.2-IV1"},
}
"""Each other feature, in the order of Kafka's tools, with the metadata.version from which a level is the default."""
MAX_LEVELS: Final[Mapping[str, int]] = {name: max(levels) for name, levels in _SINCE.items()}
_DEPENDENCIES: Final[Mapping[tuple[str, int], Mapping[str, int]]] = {
    ("eligible.leader.replicas.version", 1): {METADATA_VERSION: METADATA_VERSIONS["4.0-IV1"]},
}
_RELEASE: Final = re.compile(r"([0-9]{1,4}\.[0-9]{1,4})(?:\.[0-9]{1,4})?", re.ASCII)


def metadata_version_of(release: str) -> str | None:
    """The name of the metadata.version for `4.1`, `4.1.0` or `4.1-IV1`; None for a release that is not in the table."""
    if release in METADATA_VERSIONS:
        return release
    match = _RELEASE.fullmatch(release)
    names = [] if match is None else [name for name in METADATA_VERSIONS if name.startswith(f"{match[1]}-")]
    return names[-1] if names else None


def default_levels(metadata_version: str) -> dict[str, int]:
    """The levels of all other features that a new cluster with that metadata.version begins with."""
    newest = METADATA_VERSIONS[metadata_version]
    return {
        name: max((level for level, since in levels.items() if METADATA_VERSIONS[since] <= newest), default=0)
        for name, levels in _SINCE.items()
    }


def is_level(name: str, level: int) -> bool:
    """Whether that level of a feature is in the table; metadata.version has no level 0."""
    if name == METADATA_VERSION:
        return level in METADATA_VERSIONS.values()
    return 0 <= level <= MAX_LEVELS.get(name, -1)


def dependencies(name: str, level: int) -> Mapping[str, int]:
    """The levels of other features without which that one cannot be finalized."""
    return _DEPENDENCIES.get((name, level), {})


def name_of_level(level: int) -> str:
    """The name of a metadata.version in the table."""
    return next(name for name, known in METADATA_VERSIONS.items() if known == level)
