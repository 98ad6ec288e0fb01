"""UnregisterController: the active controller forgets a controller that has been retired (KIP-1312).

Apache Kafka's controllers serve it from 4.4 on; `kraft` only sends it.
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Error, Int32, String


@attrs.frozen
class UnregisterControllerRequest:
    controller_id: Int32


@attrs.frozen
class UnregisterControllerResponse:
    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    error_message: String | None = None


UNREGISTER_CONTROLLER: Final = Api(
    key=94,
    name="UnregisterController",
    request=UnregisterControllerRequest,
    response=UnregisterControllerResponse,
    min_version=0,
    max_version=0,
    flexible_version=0,
    error_response=UnregisterControllerResponse,
)
