"""What a quorum says of its features: the levels that its leader supports, and those finalized for all (KIP-584)."""

from __future__ import annotations

import attrs

from kraft_trio.protocol.types import VersionRange


@attrs.frozen
class FeatureLevels:
    """The supported and finalized levels of one feature; `finalized` is 0 if no level was ever finalized."""

    name: str
    supported: VersionRange
    finalized: int


@attrs.frozen
class FeatureMetadata:
    """All features, by name.  `epoch` is the leader epoch of the finalized levels, or None if the node does not say."""

    features: tuple[FeatureLevels, ...]
    epoch: int | None
