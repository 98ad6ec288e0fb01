"""ReadIndex: asks the leader up to where a replica must have applied the log before it answers a linearizable read.

This API is our own.  Its key is far above Kafka's keys.  ApiVersions names it, and Kafka's nodes and clients skip
unknown keys.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.own_shape import own_shape, with_tagged_fields
from kraft_trio.wire.schema import FieldShape


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


BY_LEASE_TAG: Final = 10_000

_SHAPES: Final = {
    "request": own_shape("ReadIndexRequest", cluster_id="string"),
    "response": with_tagged_fields(
        own_shape(
            "ReadIndexResponse", error_code="error_code", leader_id="int32", leader_epoch="int32", read_index="int64"
        ),
        (),
        FieldShape("is_by_lease", "bool", None, False, False, BY_LEASE_TAG, False),
    ),
}


READ_INDEX: Final = Api(
    key=10_002,
    name="ReadIndex",
    package=None,
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
    own_shape=lambda kind: _SHAPES[kind],
)
