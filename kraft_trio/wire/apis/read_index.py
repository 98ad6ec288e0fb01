"""ReadIndex: asks the leader up to where a replica must have applied the log before it answers a linearizable read.

This API is our own.  Its key is far above Kafka's keys.  ApiVersions names it, and Kafka's nodes and clients skip
unknown keys.
"""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Bool, Error, Int32, Int64, Place, String


@attrs.frozen
class ReadIndexRequest:
    cluster_id: String


@attrs.frozen
class ReadIndexResponse:
    """With `error`, the read index is -1."""

    error: Error = ErrorCode.none
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    """The leader that the node knows, with its epoch; -1 if the node does not say."""
    read_index: Int64 = -1
    """Exclusive."""
    is_by_lease: Annotated[Bool, Place(tag=10000)] = False
    """Whether a read lease of the leader made a round of its voters unnecessary; for statistics."""


READ_INDEX: Final = Api(
    key=10_002,
    name="ReadIndex",
    request=ReadIndexRequest,
    response=ReadIndexResponse,
    min_version=0,
    max_version=0,
    flexible_version=0,
    error_response=lambda error, _message: ReadIndexResponse(error),
)
