"""`VersionCap`: makes a host pass for an older build through its ApiVersions answers (KIP-35)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.apis.api_versions import ApiRange, ApiVersionsResponse, SupportedFeature
from kraft_trio.wire.codec import encode_response
from kraft_trio.wire.error_codes import ErrorCode

KRAFT_VERSION = "kraft.version"


@attrs.frozen
class VersionCap:
    """The newest versions of an older build.  An API without a remaining version is left out."""

    api_versions: Mapping[int, int] = attrs.field(factory=dict)
    """By API key, inclusive.  Other APIs have the versions of this build."""
    kraft_version: int | None = None
    """The highest level of the feature kraft.version, inclusive; None leaves it unchanged."""

    def capped(self, response: ApiVersionsResponse) -> ApiVersionsResponse:
        """The answer of the older build."""
        apis = [
            ApiRange(api.key, api.min_version, min(api.max_version, self.api_versions.get(api.key, api.max_version)))
            for api in response.apis
        ]
        return attrs.evolve(
            response,
            apis=tuple(api for api in apis if api.min_version <= api.max_version),
            supported_features=tuple(map(self._capped_feature, response.supported_features)),
        )

    def _capped_feature(self, feature: SupportedFeature) -> SupportedFeature:
        if feature.name != KRAFT_VERSION or self.kraft_version is None:
            return feature
        return attrs.evolve(feature, max_version=min(feature.max_version, self.kraft_version))

    def frame(self, message: Message) -> bytes:
        """The capped frame of that ApiVersions answer; unchanged if the answer is an error."""
        response = message.value
        if not isinstance(response, ApiVersionsResponse) or response.error != ErrorCode.none:
            return message.raw
        return encode_response(API_VERSIONS, message.version, message.correlation_id, self.capped(response))
