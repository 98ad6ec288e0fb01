"""TransferLeadership: asks the leader to hand over to a voter that the sender chooses.

This API is our own.  In Kafka, a leader hands over only when it shuts down.  The key is far above Kafka's keys.
ApiVersions names it, and Kafka's clients skip unknown keys.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Error, Int32, String

MOST_HAND_OVERS: Final = 3
"""How many leaders one call asks to resign.  If the chosen voter has not won then, it will not: a witness, for one."""


@attrs.frozen
class TransferLeadershipRequest:
    cluster_id: String | None
    """The node refuses a request that has another cluster id than its own."""
    voter_id: Int32
    timeout_ms: Int32
    """How long the leader may wait until that voter has caught up."""


@attrs.frozen
class TransferLeadershipResponse:
    """Without `error`, the leader has resigned in favour of the voter, or is that voter."""

    error: Error = ErrorCode.none
    error_message: String | None = None


TRANSFER_LEADERSHIP: Final = Api(
    key=10_003,
    name="TransferLeadership",
    request=TransferLeadershipRequest,
    response=TransferLeadershipResponse,
    min_version=0,
    max_version=0,
    flexible_version=0,
    error_response=TransferLeadershipResponse,
)
