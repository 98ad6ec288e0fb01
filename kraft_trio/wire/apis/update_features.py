"""UpdateFeatures: an administrator changes the finalized level of a feature, here kraft.version (KIP-584, KIP-853)."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from kraft_trio.errors import ProtocolError, UnsupportedVersionError
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields


class UpgradeType(enum.IntEnum):
    """The allowed kind of change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@attrs.frozen
class FeatureUpdate:
    feature: str
    max_version_level: int
    """The level to finalize."""
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@attrs.frozen
class UpdateFeaturesRequest:
    updates: tuple[FeatureUpdate, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


@attrs.frozen
class FeatureResult:
    """The result for one feature, in versions 0 and 1 only."""

    feature: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


@attrs.frozen
class UpdateFeaturesResponse:
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None
    results: tuple[FeatureResult, ...] = ()


def _fields_of_request(request: UpdateFeaturesRequest, version: int) -> Fields:
    if request.validate_only and version < 1:
        raise UnsupportedVersionError("UpdateFeatures v0 cannot only validate: version 1 or later is needed")
    return {
        "timeout": request.timeout_ms,
        "feature_updates": [
            {
                "feature": update.feature,
                "max_version_level": update.max_version_level,
                "allow_downgrade": update.upgrade_type is not UpgradeType.UPGRADE,
                "upgrade_type": int(update.upgrade_type),
            }
            for update in request.updates
        ],
        "validate_only": request.validate_only,
    }


def _request_of_fields(fields: Fields, version: int) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        tuple(_update_of_fields(update) for update in fields["feature_updates"]),
        fields["timeout"],
        fields.get("validate_only", False),
    )


def _update_of_fields(fields: Fields) -> FeatureUpdate:
    if "allow_downgrade" in fields:
        kind = UpgradeType.SAFE_DOWNGRADE if fields["allow_downgrade"] else UpgradeType.UPGRADE
    else:
        try:
            kind = UpgradeType(fields["upgrade_type"])
        except ValueError:
            raise ProtocolError(f"upgrade_type: {fields['upgrade_type']}, expected 1, 2 or 3") from None
    return FeatureUpdate(fields["feature"], fields["max_version_level"], kind)


def _fields_of_response(response: UpdateFeaturesResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "error_message": response.error_message,
        "results": [
            {"feature": result.feature, "error_code": result.error, "error_message": result.error_message}
            for result in response.results
        ],
    }


def _response_of_fields(fields: Fields, version: int) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        fields["error_code"],
        fields["error_message"],
        tuple(
            FeatureResult(result["feature"], result["error_code"], result["error_message"])
            for result in fields.get("results", ())
        ),
    )


_SCHEMA: Final = """\
request
    timeout: int32
    feature_updates: [FeatureUpdateKey]
        feature: string
        max_version_level: int16
        upgrade_type: int8 1+
        allow_downgrade: bool 0
    validate_only: bool 1+
response
    throttle_time: int32
    error_code: error_code
    error_message: string?
    results: [UpdatableFeatureResult] 0-1
        feature: string
        error_code: error_code
        error_message: string?
"""

UPDATE_FEATURES: Final = Api(
    key=57,
    name="UpdateFeatures",
    schema=_SCHEMA,
    min_version=0,
    max_version=2,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=UpdateFeaturesResponse,
)
