"""ControllerRegistration: a controller tells the active one its listeners and features (KIP-919).

Apache Kafka's controllers serve it; nodes only send it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.types import Endpoint, VersionRange
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

SECURITY_PROTOCOL_IDS: Final[Mapping[str, int]] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


@attrs.frozen
class ControllerListener:
    """`security_protocol` is a key of SECURITY_PROTOCOL_IDS."""

    name: str
    endpoint: Endpoint
    security_protocol: str


@attrs.frozen
class ControllerRegistrationRequest:
    """`incarnation_id` is another one for each process.  `features` has the supported levels by name."""

    controller_id: int
    incarnation_id: UUID
    listeners: tuple[ControllerListener, ...]
    features: Mapping[str, VersionRange]


@attrs.frozen
class ControllerRegistrationResponse:
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


def _fields_of_request(request: ControllerRegistrationRequest, version: int) -> Fields:
    return {
        "controller_id": request.controller_id,
        "incarnation_id": request.incarnation_id,
        "zk_migration_ready": False,
        "listeners": [
            {
                "name": listener.name,
                "host": listener.endpoint.host,
                "port": listener.endpoint.port,
                "security_protocol": SECURITY_PROTOCOL_IDS[listener.security_protocol],
            }
            for listener in request.listeners
        ],
        "features": [
            {"name": name, "min_supported_version": levels.minimum, "max_supported_version": levels.maximum}
            for name, levels in request.features.items()
        ],
    }


def _request_of_fields(fields: Fields, version: int) -> ControllerRegistrationRequest:
    names = {number: name for name, number in SECURITY_PROTOCOL_IDS.items()}
    return ControllerRegistrationRequest(
        fields["controller_id"],
        fields["incarnation_id"],
        tuple(
            ControllerListener(
                listener["name"], Endpoint(listener["host"], listener["port"]), names[listener["security_protocol"]]
            )
            for listener in fields["listeners"]
        ),
        {
            feature["name"]: VersionRange(feature["min_supported_version"], feature["max_supported_version"])
            for feature in fields["features"]
        },
    )


def _fields_of_response(response: ControllerRegistrationResponse, version: int) -> Fields:
    return {"throttle_time": 0, "error_code": response.error, "error_message": response.error_message}


def _response_of_fields(fields: Fields, version: int) -> ControllerRegistrationResponse:
    return ControllerRegistrationResponse(fields["error_code"], fields["error_message"])


_SCHEMA: Final = """\
request
    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: bool
    listeners: [Listener]
        name: string
        host: string
        port: uint16
        security_protocol: int16
    features: [Feature]
        name: string
        min_supported_version: int16
        max_supported_version: int16
response
    throttle_time: int32
    error_code: error_code
    error_message: string?
"""

CONTROLLER_REGISTRATION: Final = Api(
    key=70,
    name="ControllerRegistration",
    schema=_SCHEMA,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=ControllerRegistrationResponse,
)
