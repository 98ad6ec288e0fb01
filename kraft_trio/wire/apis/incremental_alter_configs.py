"""IncrementalAlterConfigs: sets or deletes dynamic configuration of topics and brokers (KIP-339)."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

TOPIC: Final = 2
BROKER: Final = 4

DELETE: Final = 1
"""The operation that takes a key back to its default."""


@attrs.frozen
class AlteredConfig:
    """`value` is None for DELETE."""

    name: str
    operation: int
    value: str | None = None


@attrs.frozen
class AlteredResource:
    """`type` is TOPIC, BROKER or another type.  The name of a BROKER is its id, or empty for all of them."""

    type: int
    name: str
    configs: tuple[AlteredConfig, ...]


@attrs.frozen
class IncrementalAlterConfigsRequest:
    resources: tuple[AlteredResource, ...]
    validate_only: bool = False


@attrs.frozen
class ResourceResult:
    """The outcome for one resource."""

    type: int
    name: str
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


@attrs.frozen
class IncrementalAlterConfigsResponse:
    results: tuple[ResourceResult, ...] = ()


def _fields_of_request(request: IncrementalAlterConfigsRequest, version: int) -> Fields:
    return {
        "resources": [
            {
                "resource_type": resource.type,
                "resource_name": resource.name,
                "configs": [
                    {"name": config.name, "config_operation": config.operation, "value": config.value}
                    for config in resource.configs
                ],
            }
            for resource in request.resources
        ],
        "validate_only": request.validate_only,
    }


def _request_of_fields(fields: Fields, version: int) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        tuple(
            AlteredResource(
                resource["resource_type"],
                resource["resource_name"],
                tuple(
                    AlteredConfig(config["name"], config["config_operation"], config["value"])
                    for config in resource["configs"]
                ),
            )
            for resource in fields["resources"]
        ),
        fields["validate_only"],
    )


def _fields_of_response(response: IncrementalAlterConfigsResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "responses": [
            {
                "error_code": result.error,
                "error_message": result.error_message,
                "resource_type": result.type,
                "resource_name": result.name,
            }
            for result in response.results
        ],
    }


def _response_of_fields(fields: Fields, version: int) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        tuple(
            ResourceResult(
                result["resource_type"], result["resource_name"], result["error_code"], result["error_message"]
            )
            for result in fields["responses"]
        )
    )


_SCHEMA: Final = """\
request
    resources: [AlterConfigsResource]
        resource_type: int8
        resource_name: string
        configs: [AlterableConfig]
            name: string
            config_operation: int8
            value: string?
    validate_only: bool
response
    throttle_time: int32
    responses: [AlterConfigsResourceResponse]
        error_code: error_code
        error_message: string?
        resource_type: int8
        resource_name: string
"""

INCREMENTAL_ALTER_CONFIGS: Final = Api(
    key=44,
    name="IncrementalAlterConfigs",
    schema=_SCHEMA,
    min_version=0,
    max_version=1,
    flexible_version=1,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, message: IncrementalAlterConfigsResponse((ResourceResult(0, "", error, message),)),
)
