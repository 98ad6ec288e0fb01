"""UnregisterController: the active controller forgets a controller that has been retired (KIP-1312).

Apache Kafka's controllers serve it from 4.4 on; `kraft` only sends it.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields


@attrs.frozen
class UnregisterControllerRequest:
    controller_id: int


@attrs.frozen
class UnregisterControllerResponse:
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


def _fields_of_request(request: UnregisterControllerRequest, version: int) -> Fields:
    return {"controller_id": request.controller_id}


def _request_of_fields(fields: Fields, version: int) -> UnregisterControllerRequest:
    return UnregisterControllerRequest(fields["controller_id"])


def _fields_of_response(response: UnregisterControllerResponse, version: int) -> Fields:
    return {"throttle_time": 0, "error_code": response.error, "error_message": response.error_message}


def _response_of_fields(fields: Fields, version: int) -> UnregisterControllerResponse:
    return UnregisterControllerResponse(fields["error_code"], fields["error_message"])


_SCHEMA: Final = """\
request
    controller_id: int32
response
    throttle_time: int32
    error_code: error_code
    error_message: string?
"""

UNREGISTER_CONTROLLER: Final = Api(
    key=94,
    name="UnregisterController",
    schema=_SCHEMA,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=UnregisterControllerResponse,
)
