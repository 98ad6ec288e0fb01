"""InitProducerId: an idempotent producer asks for its id (KIP-98, KIP-360).

Version 6 (KIP-939, two-phase commit) is not served, as there are no transactions.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Error, Int16, Int32, Int64, Place, String


@attrs.frozen
class InitProducerIdRequest:
    """`transactional_id` is None for a producer without transactions.  A new producer has id and epoch -1."""

    transactional_id: String | None = None
    transaction_timeout_ms: Int32 = 60_000
    producer_id: Annotated[Int64, Place(since=3)] = -1
    producer_epoch: Annotated[Int16, Place(since=3)] = -1


@attrs.frozen
class InitProducerIdResponse:
    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1


INIT_PRODUCER_ID: Final = Api(
    key=22,
    name="InitProducerId",
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    min_version=0,
    max_version=5,
    flexible_version=2,
    error_response=lambda error, _message: InitProducerIdResponse(error=error),
)
