"""TransferLeadership: asks the leader to hand over to a voter that the sender chooses.

This API is our own.  In Kafka, a leader hands over only when it shuts down.  The key is far above Kafka's keys.
ApiVersions names it, and Kafka's clients skip unknown keys.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode


@attrs.frozen
class TransferLeadershipRequest:
    cluster_id: str | None
    """The node refuses a request that has another cluster id than its own."""
    voter_id: int
    timeout_ms: int
    """How long the leader may wait until that voter has caught up."""


@attrs.frozen
class TransferLeadershipResponse:
    """Without `error`, the leader has resigned in favour of the voter, or is that voter."""

    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


_SCHEMA: Final = """\
request
    cluster_id: string?
    voter_id: int32
    timeout_ms: int32
response
    error_code: error_code
    error_message: string?
"""

TRANSFER_LEADERSHIP: Final = Api(
    key=10_003,
    name="TransferLeadership",
    schema=_SCHEMA,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=lambda request, _version: {
        "cluster_id": request.cluster_id,
        "voter_id": request.voter_id,
        "timeout_ms": request.timeout_ms,
    },
    request_of_fields=lambda fields, _version: TransferLeadershipRequest(
        fields["cluster_id"], fields["voter_id"], fields["timeout_ms"]
    ),
    fields_of_response=lambda response, _version: {
        "error_code": response.error,
        "error_message": response.error_message,
    },
    response_of_fields=lambda fields, _version: TransferLeadershipResponse(
        fields["error_code"], fields["error_message"]
    ),
    error_response=TransferLeadershipResponse,
)
