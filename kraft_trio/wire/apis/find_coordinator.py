"""FindCoordinator: the broker that coordinates a consumer group or a transaction (KIP-699: several keys at once)."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

GROUP: Final = 0
TRANSACTION: Final = 1

MAX_KEYS_WITH_MESSAGE: Final = 10
"""The most keys that get a message each: a message is many times longer than a key."""


@attrs.frozen
class FindCoordinatorRequest:
    """`key_type` is GROUP, TRANSACTION or a newer type.  Versions below 4 carry exactly one key."""

    keys: tuple[str, ...]
    key_type: int = GROUP


@attrs.frozen
class Coordinator:
    """The answer for one key, which versions below 4 do not name.  `endpoint` is None if there is an error."""

    key: str = ""
    id: int = -1
    endpoint: Endpoint | None = None
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


@attrs.frozen
class FindCoordinatorResponse:
    coordinators: tuple[Coordinator, ...] = ()

    @classmethod
    def refused(
        cls, request: FindCoordinatorRequest, error: ErrorCode, message: str | None = None
    ) -> FindCoordinatorResponse:
        """The same error for each key of the request.  The message is included only if there are few keys."""
        keys = dict.fromkeys(request.keys)
        repeated = message if len(keys) <= MAX_KEYS_WITH_MESSAGE else None
        return cls(tuple(Coordinator(key=key, error=error, error_message=repeated) for key in keys))


def _fields_of_request(request: FindCoordinatorRequest, version: int) -> Fields:
    assert version >= 4 or len(request.keys) == 1, f"FindCoordinator v{version} carries one key, not {request.keys}"
    return {"key": request.keys[0], "key_type": request.key_type, "coordinator_keys": request.keys}


def _request_of_fields(fields: Fields, version: int) -> FindCoordinatorRequest:
    keys = tuple(fields["coordinator_keys"]) if version >= 4 else (fields["key"],)
    return FindCoordinatorRequest(keys, fields.get("key_type", GROUP))


_NOWHERE: Final = Endpoint("", -1)


def _fields_of_coordinator(coordinator: Coordinator) -> Fields:
    endpoint = coordinator.endpoint or _NOWHERE
    return {
        "key": coordinator.key,
        "node_id": coordinator.id,
        "host": endpoint.host,
        "port": endpoint.port,
        "error_code": coordinator.error,
        "error_message": coordinator.error_message,
    }


def _fields_of_response(response: FindCoordinatorResponse, version: int) -> Fields:
    coordinators = [_fields_of_coordinator(coordinator) for coordinator in response.coordinators]
    if version >= 4:
        return {"throttle_time": 0, "coordinators": coordinators}
    assert len(coordinators) == 1, f"FindCoordinator v{version} answers for one key, not {len(coordinators)}"
    return {"throttle_time": 0, **coordinators[0]}


def _coordinator_of_fields(fields: Fields) -> Coordinator:
    endpoint = Endpoint(fields["host"], fields["port"])
    return Coordinator(
        key=fields.get("key", ""),
        id=fields["node_id"],
        endpoint=None if endpoint == _NOWHERE else endpoint,
        error=fields["error_code"],
        error_message=fields.get("error_message"),
    )


def _response_of_fields(fields: Fields, version: int) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        tuple(_coordinator_of_fields(item) for item in (fields["coordinators"] if version >= 4 else [fields]))
    )


_SCHEMA: Final = """\
request
    key: string 0-3
    key_type: int8 1+
    coordinator_keys: [string] 4+
response
    throttle_time: int32 1+
    coordinators: [Coordinator] 4+
        key: string
        node_id: int32
        host: string
        port: int32
        error_code: error_code
        error_message: string?
    error_code: error_code 0-3
    error_message: string? 1-3
    node_id: int32 0-3
    host: string 0-3
    port: int32 0-3
"""

FIND_COORDINATOR: Final = Api(
    key=10,
    name="FindCoordinator",
    schema=_SCHEMA,
    min_version=0,
    max_version=6,
    flexible_version=3,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, message: FindCoordinatorResponse((Coordinator(error=error, error_message=message),)),
)
