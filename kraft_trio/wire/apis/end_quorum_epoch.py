"""EndQuorumEpoch: a leader that resigns tells the voters and names its successors, best first (KIP-595, KIP-853)."""

from __future__ import annotations

from typing import Annotated, Final

import attrs

from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.wire.apis.endpoints import Listeners
from kraft_trio.wire.apis.one_partition import OfPartition, TopicName
from kraft_trio.wire.apis.quorum_epoch_response import QuorumEpochResponse
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.fields import Int32, Parts, Place, String, Uuid


@attrs.frozen
class EndQuorumEpochRequest:
    """Version 0 carries `preferred_successors`, version 1 `preferred_candidates`; the other is read as ()."""

    cluster_id: String | None
    topic: TopicName
    partition: OfPartition[Int32]
    leader_id: OfPartition[Int32]
    leader_epoch: OfPartition[Int32]
    preferred_successors: OfPartition[Annotated[tuple[Int32, ...], Place(until=0)]] = ()
    preferred_candidates: OfPartition[
        Annotated[tuple[Annotated[ReplicaKey, Parts(id=Int32, directory_id=Uuid)], ...], Place(since=1)]
    ] = ()
    leader_endpoints: Annotated[Listeners, Place(since=1)] = Endpoints()


@attrs.frozen
class EndQuorumEpochResponse(QuorumEpochResponse):
    """The leader that the receiver knows afterwards."""


END_QUORUM_EPOCH: Final = Api(
    key=54,
    name="EndQuorumEpoch",
    request=EndQuorumEpochRequest,
    response=EndQuorumEpochResponse,
    min_version=0,
    max_version=1,
    flexible_version=1,
    error_response=lambda error, _message: EndQuorumEpochResponse(error=error),
)
