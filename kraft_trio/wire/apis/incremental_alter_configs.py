"""IncrementalAlterConfigs: sets or deletes dynamic configuration of topics and brokers (KIP-339)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Bool, Error, Int8, Int32, Place, String

TOPIC: Final = 2
BROKER: Final = 4

DELETE: Final = 1
"""The operation that takes a key back to its default."""


@attrs.frozen
class AlteredConfig:
    """`value` is None for DELETE."""

    name: String
    operation: Int8
    value: String | None = None


@attrs.frozen
class AlteredResource:
    """`type` is TOPIC, BROKER or another type.  The name of a BROKER is its id, or empty for all of them."""

    type: Int8
    name: Annotated[String, "resource_name"]
    configs: tuple[AlteredConfig, ...]


@attrs.frozen
class IncrementalAlterConfigsRequest:
    resources: tuple[AlteredResource, ...]
    validate_only: Bool = False


@attrs.frozen
class ResourceResult:
    """The outcome for one resource."""

    type: Annotated[Int8, Place(after="error_message")]
    name: Annotated[String, "resource_name", Place(after="type")]
    error: Error = ErrorCode.none
    error_message: String | None = None


@attrs.frozen
class IncrementalAlterConfigsResponse:
    throttle_time_ms: ClassVar[Int32] = 0
    results: Annotated[tuple[ResourceResult, ...], "responses"] = ()


INCREMENTAL_ALTER_CONFIGS: Final = Api(
    key=44,
    name="IncrementalAlterConfigs",
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    min_version=0,
    max_version=1,
    flexible_version=1,
    error_response=lambda error, message: IncrementalAlterConfigsResponse((ResourceResult(0, "", error, message),)),
)
