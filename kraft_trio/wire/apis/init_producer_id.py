"""InitProducerId: an idempotent producer asks for its id (KIP-98, KIP-360).

Version 6 (KIP-939, two-phase commit) is not served, as there are no transactions.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields


@attrs.frozen
class InitProducerIdRequest:
    """`transactional_id` is None for a producer without transactions.  A new producer has id and epoch -1."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    producer_id: int = -1
    producer_epoch: int = -1


@attrs.frozen
class InitProducerIdResponse:
    error: ErrorCode = ErrorCode.none
    producer_id: int = -1
    producer_epoch: int = -1


def _fields_of_request(request: InitProducerIdRequest, version: int) -> Fields:
    return {
        "transactional_id": request.transactional_id,
        "transaction_timeout": request.transaction_timeout_ms,
        "producer_id": request.producer_id,
        "producer_epoch": request.producer_epoch,
    }


def _request_of_fields(fields: Fields, version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        fields["transactional_id"],
        fields["transaction_timeout"],
        fields.get("producer_id", -1),
        fields.get("producer_epoch", -1),
    )


def _fields_of_response(response: InitProducerIdResponse, version: int) -> Fields:
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "producer_id": response.producer_id,
        "producer_epoch": response.producer_epoch,
    }


def _response_of_fields(fields: Fields, version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(fields["error_code"], fields["producer_id"], fields["producer_epoch"])


_SCHEMA: Final = """\
request
    transactional_id: string?
    transaction_timeout: int32
    producer_id: int64 3+
    producer_epoch: int16 3+
response
    throttle_time: int32
    error_code: error_code
    producer_id: int64
    producer_epoch: int16
"""

INIT_PRODUCER_ID: Final = Api(
    key=22,
    name="InitProducerId",
    schema=_SCHEMA,
    min_version=0,
    max_version=5,
    flexible_version=2,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: InitProducerIdResponse(error=error),
)
