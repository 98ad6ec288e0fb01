"""ApiVersions: the APIs, versions and features of a node (KIP-35, KIP-511, KIP-584).

The response header always has version 0.  A request whose version is too new is answered in version 0, so that any
client can read the answer.
"""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Annotated, ClassVar, Final, TypeAlias

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Bool, Error, Int16, Int32, Int64, Place, String, Via

NO_FINALIZED_EPOCH: Final = -1

SOFTWARE_NAME: Final = "kraft-trio"


@functools.cache
def _software_version() -> str:
    try:
        return package_version(SOFTWARE_NAME)
    except PackageNotFoundError:
        return "unknown"


@attrs.frozen
class ApiVersionsRequest:
    """The name and version of the client, for the logs of the node.  Not sent below version 3."""

    client_software_name: Annotated[String, Place(since=3, absent="")] = SOFTWARE_NAME
    client_software_version: Annotated[String, Place(since=3, absent="")] = attrs.field(factory=_software_version)


@attrs.frozen
class ApiRange:
    """The versions of one API, both ends inclusive."""

    key: Int16
    min_version: Int16
    max_version: Int16


@attrs.frozen
class SupportedFeature:
    """The levels of a feature that a node supports, both ends inclusive."""

    name: String
    min_version: Int16
    max_version: Int16


@attrs.frozen
class FinalizedFeature:
    """The level of a feature that the cluster has agreed on."""

    name: String
    level: Int16
    lowest_level: ClassVar[Annotated[Int16, Place(of="level")]]


def _shown_to_version_3(features: tuple[SupportedFeature, ...]) -> tuple[SupportedFeature, ...]:
    """A client of version 3 refuses a feature whose minimum is 0.  Version 4 allows it."""
    return tuple(feature for feature in features if feature.min_version > 0)


_InVersion3: TypeAlias = Annotated[
    tuple[SupportedFeature, ...], Via(tuple[SupportedFeature, ...], write=_shown_to_version_3), "supported_features"
]


@attrs.frozen
class ApiVersionsResponse:
    """If `finalized_features_epoch` is -1, the finalized features are unknown."""

    error: Error = ErrorCode.none
    apis: Annotated[tuple[ApiRange, ...], "api_keys"] = ()
    throttle_time_ms: ClassVar[Annotated[Int32, Place(since=1)]] = 0
    supported_features: Annotated[tuple[SupportedFeature, ...], Place(since=4, tag=0)] = ()
    supported_by_version_3: ClassVar[Annotated[_InVersion3, Place(since=3, until=3, tag=0, of="supported_features")]]
    finalized_features: Annotated[tuple[FinalizedFeature, ...], Place(since=3, tag=2)] = ()
    finalized_features_epoch: Annotated[Int64, Place(since=3, tag=1)] = NO_FINALIZED_EPOCH
    zk_migration_ready: ClassVar[Annotated[Bool, Place(since=3, tag=3)]] = False


API_VERSIONS: Final = Api(
    key=18,
    name="ApiVersions",
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    min_version=0,
    max_version=4,
    flexible_version=3,
    error_response=lambda error, _message: ApiVersionsResponse(error=error),
    response_header_is_always_0=True,
)
