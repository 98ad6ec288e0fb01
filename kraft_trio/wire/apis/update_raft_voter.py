"""UpdateRaftVoter: a voter tells the leader its listeners and supported versions (KIP-853 "UpdateVoter")."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import attrs

from kraft_trio.protocol.types import Endpoint, VersionRange
from kraft_trio.wire.apis.endpoints import Listeners
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import INLINE, Error, Int16, Int32, Nest, Parts, Place, String, Uuid

_LEADER: Final = Nest("current_leader", Place(tag=0))


@attrs.frozen
class UpdateRaftVoterRequest:
    cluster_id: String | None
    current_leader_epoch: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Listeners
    kraft_versions: Annotated[VersionRange, Parts(minimum=Int16, maximum=Int16)]


@attrs.frozen
class UpdateRaftVoterResponse:
    """`leader_id` is -1 and the endpoint None if the receiver knows no leader."""

    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    leader_id: Annotated[Int32, _LEADER] = -1
    leader_epoch: Annotated[Int32, _LEADER] = -1
    leader_endpoint: Annotated[Endpoint | None, Parts(none=("", 0), host=String, port=Int32), INLINE, _LEADER] = None


UPDATE_RAFT_VOTER: Final = Api(
    key=82,
    name="UpdateRaftVoter",
    request=UpdateRaftVoterRequest,
    response=UpdateRaftVoterResponse,
    min_version=0,
    max_version=0,
    flexible_version=0,
    error_response=lambda error, _message: UpdateRaftVoterResponse(error),
)
