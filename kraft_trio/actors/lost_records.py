"""Which committed records this process has dropped to follow a leader, for the node's operator."""

from __future__ import annotations

import attrs

from kraft_trio.logs import get_logger

log = get_logger(__name__)


@attrs.define
class LostRecords:
    """One for a node.  FollowerReplication writes it; the node's status reads it.

    A quorum truncates no committed record.  It happens if voters came back with blank or older disks, or if the static
    voters were changed so that a majority of the new ones knew nothing of the records.
    """

    what: str | None = None
    """Which records, and for which leader; None as long as there are none."""
    _first: int | None = None
    _end: int = 0

    def cut(self, offset: int, once_committed: int, leader_id: int, epoch: int) -> None:
        """The log was cut at `offset`.  Everything before `once_committed` (exclusive) had been committed."""
        if offset >= once_committed:
            return
        self._first = offset if self._first is None else min(offset, self._first)
        self._end = max(once_committed, self._end)
        self.what = f"offsets {self._first} to {self._end - 1}, to follow node {leader_id} in epoch {epoch}"
        log.error(
            "committed records truncated",
            first=offset,
            last=once_committed - 1,
            leader_id=leader_id,
            leader_epoch=epoch,
        )
