"""Fetches a range of a quorum's committed log as bytes, across changes of the leader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

import attrs
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.spark.live.position import UNKNOWN_EPOCH
from kraft_trio.spark.live.quorum import (
    BehindError,
    DataLossError,
    Fetched,
    QuorumAddress,
    QuorumLeader,
    ask_leader,
    check_cluster,
)
from kraft_trio.spark.live.replica import ask_replica

log = logging.getLogger(__name__)

ROUND_BYTES: Final = 8 * 1024 * 1024
"""How much one connection fetches before handing it on; a task holds at most this and one batch."""
_MAX_WAIT_MS: Final = 500


@attrs.frozen
class LogRange:
    """Offsets `begin` (inclusive) to `end` (exclusive) of one cluster's log, committed when planned."""

    cluster_id: str | None
    begin: int
    end: int
    topic_name: str | None = None
    begins_with_state: bool = False
    """Whether `content=changes` tells first what exists at `begin`: where a query begins, or follows a loss."""
    epoch_before: int = UNKNOWN_EPOCH
    """Of the record before `begin`.  Where reading begins it is unknown: the cluster's log may be another by now."""


def committed_batches(
    address: QuorumAddress,
    wanted: LogRange,
    *,
    fail_on_data_loss: bool,
    on_retry: Callable[[], object] = lambda: None,
) -> Iterator[bytes]:
    """Yield whole batches that cover the range, in order; the first and last may hold more.

    No event loop runs while the caller has the bytes.  If part of the range is gone, raises DataLossError, or without
    `fail_on_data_loss` logs a warning and continues after the gap.  Calls `on_retry` before it asks the leader again
    after a failure.  Raises NetworkError if nothing arrives for the address's `timeout_ms`, and ProtocolError for
    damaged batches.  Raises OtherClusterError and RefusedError.
    """
    position = wanted.begin
    while position < wanted.end:
        round_ = trio.run(_round, address, wanted, position, on_retry)
        if isinstance(round_, str):
            _tell_loss(f"offsets {position} to {wanted.end} are gone: {round_}", fail_on_data_loss)
            return
        for fetched in round_:
            if fetched.is_in_log:
                yield fetched.records
                position = fetched.next_offset
            else:
                begins = min(fetched.log_start_offset, wanted.end)
                _tell_loss(
                    f"cluster {wanted.cluster_id}: offsets {position} to {begins} are gone, "
                    f"the log begins at {fetched.log_start_offset} now",
                    fail_on_data_loss,
                )
                position = begins


def _tell_loss(what: str, fail_on_data_loss: bool) -> None:
    if fail_on_data_loss:
        raise DataLossError(f"{what} (failOnDataLoss=false continues after the gap)")
    log.warning("%s; continuing after the gap (failOnDataLoss=false)", what)


async def _round(
    address: QuorumAddress, wanted: LogRange, position: int, on_retry: Callable[[], object]
) -> list[Fetched] | str:
    """The next non-empty answers: batches, or the news that the offset is not in the log.

    Returns text instead if the log still ends before the offset when the address's time limit is over.
    """

    async def question(leader: QuorumLeader) -> list[Fetched] | str:
        check_cluster(wanted.cluster_id, leader)
        return await _answers(leader, position, wanted.end)

    async def lost(_leader: QuorumLeader, loss: str) -> str:
        return loss

    async def records_of(replica: QuorumLeader) -> list[Fetched]:
        check_cluster(wanted.cluster_id, replica)
        return [fetched for fetched in await _answers(replica, position, wanted.end) if fetched.is_in_log]

    # What a replica has trimmed, the leader may have.
    if address.replicas and (found := await ask_replica(address, records_of, on_retry)):
        return found
    return await ask_leader(address, question, when_lost=lost, on_retry=on_retry)


async def _answers(leader: QuorumLeader, position: int, end: int) -> list[Fetched]:
    answers: list[Fetched] = []
    size = 0
    try:
        while position < end and size < ROUND_BYTES:
            fetched = await leader.fetch(position, max_wait_ms=_MAX_WAIT_MS)
            if not fetched.is_in_log and fetched.log_start_offset <= position:
                raise BehindError(f"{leader.name} does not have offset {position}")
            if fetched.is_in_log and not fetched.records:
                if leader.high_watermark is not None and leader.high_watermark <= position:
                    known = f"knows offsets up to {leader.high_watermark} to be committed"
                    raise BehindError(f"{leader.name} {known}")
                raise NetworkError(f"{leader.name} does not know offset {position} as committed")
            answers.append(fetched)
            if not fetched.is_in_log:
                break
            size += len(fetched.records)
            position = fetched.next_offset
    except NetworkError:
        if not answers:
            raise
    return answers
