"""Notices that static voters which were changed in the file have elected a leader, so that quorum-state names them.

The log tells it as well, but only until it is trimmed behind a snapshot, and the next election may be far.
"""

from __future__ import annotations

from kraft_trio.actors.context.epoch_context import TellElection
from kraft_trio.messages import LeaderChangeCommitted, Stamp
from kraft_trio.storage.log.log import Log


async def tell_of_leader_change(log: Log, stamp: Stamp, tell_election: TellElection) -> None:
    """Tell the election once the first record of the epoch is known to be committed."""
    while not _has_committed_in(log, stamp.epoch):
        await log.high_watermark_moved.park()
    await tell_election(LeaderChangeCommitted(stamp))


def _has_committed_in(log: Log, epoch: int) -> bool:
    *_, (newest, start_offset) = log.epochs.entries or ((0, 0),)
    return newest == epoch and log.once_committed > start_offset
