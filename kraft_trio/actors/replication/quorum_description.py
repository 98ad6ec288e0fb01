"""The leader's answer to DescribeQuorum."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.actors.context.replica_progress import ProgressTable
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.voter_history import VoterHistory
from kraft_trio.wire.apis.describe_quorum import (
    MAX_PRODUCERS,
    DescribedProducer,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumReplica,
)


def describe_quorum(
    request: DescribeQuorumRequest,
    context: EpochContext,
    progress: ProgressTable,
    *,
    high_watermark: int | None,
    reassignment_status: str | None,
) -> DescribeQuorumResponse:
    now_s, history = trio.current_time(), context.log.voters
    described = progress.describe(
        request,
        epoch=context.epoch,
        voters=history.voters,
        high_watermark=high_watermark,
        leader_end_offset=context.log.synced_end_offset,
        now_s=now_s,
        now_ms=context.wall_clock_ms(),
        present_since_s=now_s - context.config.fetch_timeout_ms / 1000,
        target=history.target,
    )
    return attrs.evolve(
        described,
        committed_voters=_committed_voters(described, history, high_watermark),
        reassignment_status=reassignment_status if described.target_voters else None,
        producers=_producers(request.producer_ids, context.log.producers) if request.producer_ids else (),
    )


def _producers(wanted: Sequence[int], known: ProducerStates) -> tuple[DescribedProducer, ...]:
    """The producers, of the first MAX_PRODUCERS, that the log remembers."""
    found = ((producer_id, known.newest_batch(producer_id)) for producer_id in wanted[:MAX_PRODUCERS])
    return tuple(DescribedProducer(producer_id, *newest) for producer_id, newest in found if newest is not None)


def _committed_voters(
    described: DescribeQuorumResponse, history: VoterHistory, high_watermark: int | None
) -> tuple[QuorumReplica, ...]:
    """The replicas of the newest committed voter set, if a newer set is uncommitted."""
    if high_watermark is None or not history.uncommitted(high_watermark):
        return ()
    known = {replica.key: replica for replica in (*described.voters, *described.observers)}
    return tuple(known.get(voter.key, QuorumReplica(voter.key, -1)) for voter in history.voters_at(high_watermark - 1))
