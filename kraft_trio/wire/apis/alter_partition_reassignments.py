"""AlterPartitionReassignments: sets or cancels the target voters of the quorum's partition (KIP-455, KIP-642).

Kafka's request names replicas by their ids.  A tagged field of our own can add their directory ids, which name the
disks too.  A reader that does not know the field skips it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias
from uuid import UUID

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import SHARED, Bool, ByTopic, Error, Int32, Place, String, Uuid, Via

_Replicas: TypeAlias = tuple[ReplicaKey, ...] | None


def _ids(replicas: _Replicas) -> tuple[int, ...] | None:
    return None if replicas is None else tuple(key.id for key in replicas)


def _directory_ids(replicas: _Replicas, _: _Replicas) -> tuple[UUID, ...]:
    """Empty if none is known."""
    known = any(key.directory_id != NO_DIRECTORY_ID for key in replicas or ())
    return tuple(key.directory_id for key in replicas or ()) if known else ()


def _keys(directory_ids: tuple[UUID, ...], ids: tuple[int, ...] | None) -> _Replicas:
    if directory_ids and len(directory_ids) != len(ids or ()):
        raise ProtocolError(f"directory_ids: {len(directory_ids)} for {len(ids or ())} replicas, expected one for each")
    if ids is None:
        return None
    return tuple(map(ReplicaKey, ids, directory_ids)) if directory_ids else tuple(map(ReplicaKey, ids))


_DirectoryIds: TypeAlias = Annotated[
    _Replicas, Via(tuple[Uuid, ...], read=_keys, write=_directory_ids, beside=("replicas",))
]


@attrs.frozen
class ReassignedPartition:
    """`replicas` are the target voters; None cancels the reassignment.  A directory id may be unknown."""

    topic_name: Annotated[String, "name", SHARED]
    partition: Int32
    replicas: Annotated[_Replicas, Via(tuple[Int32, ...] | None, write=_ids)]
    directory_ids: ClassVar[Annotated[_DirectoryIds, Place(tag=10000, of="replicas")]]


@attrs.frozen
class AlterPartitionReassignmentsRequest:
    """`timeout_ms` bounds the leader's wait for the commit of the target, not the reassignment itself."""

    timeout_ms: Int32
    partitions: Annotated[
        tuple[ReassignedPartition, ...], ByTopic("topics"), Place(after="allow_replication_factor_change")
    ]
    allow_replication_factor_change: Annotated[Bool, Place(since=1)] = True
    """Whether the target may have another number of voters (KIP-860); below version 1 it may."""


@attrs.frozen
class ReassignmentResult:
    """The outcome for one partition."""

    topic_name: Annotated[String, "name", SHARED]
    partition: Int32
    error: Error = ErrorCode.none
    error_message: String | None = None


@attrs.frozen
class AlterPartitionReassignmentsResponse:
    """If the whole request failed, `error` says why, and there are no results."""

    throttle_time_ms: ClassVar[Int32] = 0
    allow_replication_factor_change: ClassVar[Annotated[Bool, Place(since=1)]] = True
    error: Error = ErrorCode.none
    error_message: String | None = None
    results: Annotated[tuple[ReassignmentResult, ...], ByTopic("responses")] = ()


ALTER_PARTITION_REASSIGNMENTS: Final = Api(
    key=45,
    name="AlterPartitionReassignments",
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    min_version=0,
    max_version=1,
    flexible_version=0,
    error_response=AlterPartitionReassignmentsResponse,
)
