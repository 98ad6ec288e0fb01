"""The choice of a version: the highest that both sides support (KIP-35)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraft_trio.errors import ApiNotServedError, UnsupportedVersionError
from kraft_trio.wire.apis.api_versions import ApiRange
from kraft_trio.wire.descriptor import Api


def negotiate(api: Api[Any, Any], peer_ranges: Mapping[int, ApiRange]) -> int:
    """The highest common version of `api`.  Raises UnsupportedVersionError if there is none."""
    theirs = peer_ranges.get(api.key)
    if theirs is None:
        raise ApiNotServedError(f"{api.name}: the peer does not serve it")
    version = min(api.max_version, theirs.max_version)
    if version < max(api.min_version, theirs.min_version):
        raise UnsupportedVersionError(
            f"{api.name}: the peer serves versions {theirs.min_version} to {theirs.max_version}, "
            f"we speak {api.min_version} to {api.max_version}"
        )
    return version
