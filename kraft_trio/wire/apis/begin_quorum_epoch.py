"""BeginQuorumEpoch: a new leader announces itself to the voters (KIP-595, KIP-853)."""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from kraft_trio.protocol.types import Endpoints
from kraft_trio.wire.apis.endpoints import Listeners
from kraft_trio.wire.apis.one_partition import OfPartition, TopicName
from kraft_trio.wire.apis.quorum_epoch_response import QuorumEpochResponse
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.fields import Int32, Place, String, Uuid


@attrs.frozen
class BeginQuorumEpochRequest:
    """Tells replica `voter_id` who leads; -1 addresses any receiver.  Version 0 has no endpoints and no receiver."""

    cluster_id: String | None
    voter_id: Annotated[Int32, Place(since=1)]
    topic: TopicName
    partition: OfPartition[Int32]
    voter_directory_id: OfPartition[Annotated[Uuid, Place(since=1)]]
    """The directory id of the receiver, or zero if it is unknown."""
    leader_id: OfPartition[Int32]
    leader_epoch: OfPartition[Int32]
    leader_endpoints: Annotated[Listeners, Place(since=1)] = Endpoints()


@attrs.frozen
class BeginQuorumEpochResponse(QuorumEpochResponse):
    """The leader that the receiver knows afterwards."""


BEGIN_QUORUM_EPOCH: Final = Api(
    key=53,
    name="BeginQuorumEpoch",
    request=BeginQuorumEpochRequest,
    response=BeginQuorumEpochResponse,
    min_version=0,
    max_version=1,
    flexible_version=1,
    error_response=lambda error, _message: BeginQuorumEpochResponse(error=error),
)
