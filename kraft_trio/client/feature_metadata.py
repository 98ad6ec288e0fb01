"""What a quorum says of its features: the levels that its leader supports, and those finalized for all (KIP-584)."""

from __future__ import annotations

import attrs

from kraft_trio.protocol.types import VersionRange


@attrs.frozen
class FeatureLevels:
    """One feature.  `finalized` is 0 where no level was ever finalized."""

    name: str
    supported: VersionRange
    finalized: int


@attrs.frozen
class FeatureMetadata:
    """All features, by name; `epoch` is the leader's with its finalized levels, None where it does not say."""

    features: tuple[FeatureLevels, ...]
    epoch: int | None
