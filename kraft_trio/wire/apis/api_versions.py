"""ApiVersions: the APIs, versions and features of a node (KIP-35, KIP-511, KIP-584).

The response header always has version 0.  A request whose version is too new is answered in version 0, so that any
client can read the answer.
"""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

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

    client_software_name: str = SOFTWARE_NAME
    client_software_version: str = attrs.field(factory=_software_version)


@attrs.frozen
class ApiRange:
    """The versions of one API, both ends inclusive."""

    key: int
    min_version: int
    max_version: int


@attrs.frozen
class SupportedFeature:
    """The levels of a feature that a node supports, both ends inclusive."""

    name: str
    min_version: int
    max_version: int


@attrs.frozen
class FinalizedFeature:
    """The level of a feature that the cluster has agreed on."""

    name: str
    level: int


@attrs.frozen
class ApiVersionsResponse:
    """If `finalized_features_epoch` is -1, the finalized features are unknown."""

    error: ErrorCode = ErrorCode.none
    apis: tuple[ApiRange, ...] = ()
    supported_features: tuple[SupportedFeature, ...] = ()
    finalized_features: tuple[FinalizedFeature, ...] = ()
    finalized_features_epoch: int = NO_FINALIZED_EPOCH


def _fields_of_request(request: ApiVersionsRequest, version: int) -> Fields:
    return {
        "client_software_name": request.client_software_name,
        "client_software_version": request.client_software_version,
    }


def _request_of_fields(fields: Fields, version: int) -> ApiVersionsRequest:
    return ApiVersionsRequest(fields.get("client_software_name", ""), fields.get("client_software_version", ""))


def _fields_of_response(response: ApiVersionsResponse, version: int) -> Fields:
    return {
        "error_code": response.error,
        "api_keys": [
            {"api_key": api.key, "min_version": api.min_version, "max_version": api.max_version}
            for api in response.apis
        ],
        "throttle_time": 0,
        "supported_features": [
            {"name": feature.name, "min_version": feature.min_version, "max_version": feature.max_version}
            for feature in response.supported_features
            # A client of version 3 refuses a feature whose minimum is 0.  Version 4 allows it.
            if version >= 4 or feature.min_version > 0
        ],
        "finalized_features_epoch": response.finalized_features_epoch,
        "finalized_features": [
            {"name": feature.name, "max_version_level": feature.level, "min_version_level": feature.level}
            for feature in response.finalized_features
        ],
        "zk_migration_ready": False,
    }


def _response_of_fields(fields: Fields, version: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error=fields["error_code"],
        apis=tuple(ApiRange(api["api_key"], api["min_version"], api["max_version"]) for api in fields["api_keys"]),
        supported_features=tuple(
            SupportedFeature(feature["name"], feature["min_version"], feature["max_version"])
            for feature in fields.get("supported_features", ())
        ),
        finalized_features=tuple(
            FinalizedFeature(feature["name"], feature["max_version_level"])
            for feature in fields.get("finalized_features", ())
        ),
        finalized_features_epoch=fields.get("finalized_features_epoch", NO_FINALIZED_EPOCH),
    )


_SCHEMA: Final = """\
request
    client_software_name: string 3+
    client_software_version: string 3+
response
    error_code: error_code
    api_keys: [ApiVersion]
        api_key: int16
        min_version: int16
        max_version: int16
    throttle_time: int32 1+
    supported_features: [SupportedFeatureKey] 3+ tag 0
        name: string
        min_version: int16
        max_version: int16
    finalized_features_epoch: int64 3+ tag 1 = -1
    finalized_features: [FinalizedFeatureKey] 3+ tag 2
        name: string
        max_version_level: int16
        min_version_level: int16
    zk_migration_ready: bool 3+ tag 3
"""

API_VERSIONS: Final = Api(
    key=18,
    name="ApiVersions",
    schema=_SCHEMA,
    min_version=0,
    max_version=4,
    flexible_version=3,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: ApiVersionsResponse(error=error),
    response_header_is_always_0=True,
)
