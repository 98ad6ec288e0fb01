"""ReadIndex: asks the leader up to where a replica must have applied the log before it answers a linearizable read.

This API is our own.  Its key is far above Kafka's keys.  ApiVersions names it, and Kafka's nodes and clients skip
unknown keys.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode


@attrs.frozen
class ReadIndexRequest:
    cluster_id: str


@attrs.frozen
class ReadIndexResponse:
    """With `error`, the read index is -1."""

    error: ErrorCode = ErrorCode.none
    leader_id: int = -1
    leader_epoch: int = -1
    """The leader that the node knows, with its epoch; -1 if the node does not say."""
    read_index: int = -1
    """Exclusive."""
    is_by_lease: bool = False
    """Whether a read lease of the leader made a round of its voters unnecessary; for statistics."""


_SCHEMA: Final = """\
request
    cluster_id: string
response
    error_code: error_code
    leader_id: int32
    leader_epoch: int32
    read_index: int64
    is_by_lease: bool tag 10000
"""

READ_INDEX: Final = Api(
    key=10_002,
    name="ReadIndex",
    schema=_SCHEMA,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=lambda request, _version: {"cluster_id": request.cluster_id},
    request_of_fields=lambda fields, _version: ReadIndexRequest(fields["cluster_id"]),
    fields_of_response=lambda response, _version: {
        "error_code": response.error,
        "leader_id": response.leader_id,
        "leader_epoch": response.leader_epoch,
        "read_index": response.read_index,
        "is_by_lease": response.is_by_lease,
    },
    response_of_fields=lambda fields, _version: ReadIndexResponse(
        fields["error_code"],
        fields["leader_id"],
        fields["leader_epoch"],
        fields["read_index"],
        fields["is_by_lease"],
    ),
    error_response=lambda error, _message: ReadIndexResponse(error),
)
