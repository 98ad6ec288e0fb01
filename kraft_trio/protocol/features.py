"""The feature levels that a witness claims to support among Apache Kafka's controllers (KIP-584, KIP-919)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraft_trio.protocol.types import VersionRange
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS

KRAFT_VERSION: Final = "kraft.version"
ANY_LEVEL: Final = VersionRange(0, 2**15 - 1)


def claimed_features(names: Iterable[str]) -> dict[str, VersionRange]:
    """The levels of each feature that the active controller names, and of kraft.version.

    A controller raises a feature only to a level that all registered ones support.  A witness interprets no records of
    the controllers, so it supports any level of what they are about.  kraft.version is its own.
    """
    return dict.fromkeys(names, ANY_LEVEL) | {KRAFT_VERSION: SUPPORTED_KRAFT_VERSIONS}
