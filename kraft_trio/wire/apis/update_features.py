"""UpdateFeatures: an administrator changes the finalized level of a feature, here kraft.version (KIP-584, KIP-853)."""

from __future__ import annotations

import enum
from typing import Annotated, ClassVar, Final, TypeAlias

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Bool, Error, Int8, Int16, Int32, Place, String, Via


class UpgradeType(enum.IntEnum):
    """The allowed kind of change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def _upgrade_type(value: int) -> UpgradeType:
    try:
        return UpgradeType(value)
    except ValueError:
        raise ProtocolError(f"upgrade_type: {value}, expected 1, 2 or 3") from None


def _of_downgrade(allowed: bool) -> UpgradeType:
    return UpgradeType.SAFE_DOWNGRADE if allowed else UpgradeType.UPGRADE


_AllowDowngrade: TypeAlias = Annotated[
    UpgradeType, Via(Bool, read=_of_downgrade, write=lambda upgrade_type: upgrade_type is not UpgradeType.UPGRADE)
]


@attrs.frozen
class FeatureUpdate:
    feature: String
    max_version_level: Int16
    """The level to finalize."""
    upgrade_type: Annotated[UpgradeType, Via(Int8, read=_upgrade_type), Place(since=1)] = UpgradeType.UPGRADE
    allow_downgrade: ClassVar[Annotated[_AllowDowngrade, Place(until=0, of="upgrade_type")]]


@attrs.frozen
class UpdateFeaturesRequest:
    updates: Annotated[tuple[FeatureUpdate, ...], "feature_updates", Place(after="timeout_ms")]
    timeout_ms: Int32 = 60_000
    validate_only: Annotated[
        Bool,
        Place(since=1, needs="UpdateFeatures v{version} cannot only validate: version 1 or later is needed"),
    ] = False


@attrs.frozen
class FeatureResult:
    """The result for one feature, in versions 0 and 1 only."""

    feature: String
    error: Error = ErrorCode.none
    error_message: String | None = None


@attrs.frozen
class UpdateFeaturesResponse:
    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    error_message: String | None = None
    results: Annotated[tuple[FeatureResult, ...], Place(until=1)] = ()


UPDATE_FEATURES: Final = Api(
    key=57,
    name="UpdateFeatures",
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
    min_version=0,
    max_version=2,
    flexible_version=0,
    error_response=UpdateFeaturesResponse,
)
