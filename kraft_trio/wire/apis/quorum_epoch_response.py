"""The response of BeginQuorumEpoch and EndQuorumEpoch, and most of the one of Vote (KIP-595, KIP-853)."""

from __future__ import annotations

from typing import Annotated

import attrs

from kraft_trio.wire.apis.endpoints import LeaderEndpoint
from kraft_trio.wire.apis.one_partition import NO_TOPIC, AnsweredTopicName, OfAnsweredPartition
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Error, Int32, Place


@attrs.frozen
class QuorumEpochResponse:
    """With `error`, which is about the whole request, all else is unset.  `leader_id` is -1 if no leader is known."""

    error: Error = ErrorCode.none
    topic: AnsweredTopicName = NO_TOPIC
    partition: OfAnsweredPartition[Int32] = 0
    partition_error: OfAnsweredPartition[Error] = ErrorCode.none
    leader_id: OfAnsweredPartition[Int32] = -1
    leader_epoch: OfAnsweredPartition[Int32] = -1
    leader_endpoint: Annotated[LeaderEndpoint, Place(since=1, tag=0)] = None
