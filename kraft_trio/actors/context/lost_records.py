"""Which committed records a quorum has lost, as this process knows it, for the node's operator."""

from __future__ import annotations

import attrs

from kraft_trio.logs import get_logger

log = get_logger(__name__)


@attrs.define
class LostRecords:
    """The committed records that this node lost.  FollowerReplication writes it; the node's status reads it.

    A leader has every committed record.  One that lacks some was elected by voters that came back with blank or older
    disks, or by static voters that were changed in the files.
    """

    _dropped: str | None = None
    _first: int | None = None
    _end: int = 0
    _kept: str | None = None

    @property
    def what(self) -> str | None:
        """Which records, and for which leader; None if nothing is known to be lost."""
        return self._kept or self._dropped

    @property
    def dropped(self) -> str | None:
        """Which records this node itself no longer has.  A node that leads has those that it has kept."""
        return self._dropped

    def cut(self, offset: int, once_committed: int, leader_id: int, epoch: int) -> None:
        """The log was cut at `offset`.  Everything before `once_committed` (exclusive) had been committed."""
        if offset >= once_committed:
            return
        self._first = offset if self._first is None else min(offset, self._first)
        self._end = max(once_committed, self._end)
        lost = f"offsets {self._first} to {self._end - 1}"
        self._dropped = f"{lost}, which this node dropped to follow node {leader_id} in epoch {epoch}"
        log.error(
            "committed records truncated",
            first=offset,
            last=once_committed - 1,
            leader_id=leader_id,
            leader_epoch=epoch,
        )

    def refused(self, end_offset: int, high_watermark: int, leader_id: int, epoch: int) -> None:
        """This node refuses to have its log end at `end_offset`, because it knows a higher high watermark."""
        lost = f"offsets {end_offset} to {high_watermark - 1}"
        kept = (
            f"{lost}, which node {leader_id}, leader of epoch {epoch}, lacks; this node keeps them, and takes no others"
        )
        if kept != self._kept:
            self._kept = kept
            log.error(
                "truncation of committed records refused",
                first=end_offset,
                last=high_watermark - 1,
                leader_id=leader_id,
                leader_epoch=epoch,
            )

    def follows(self) -> None:
        """A leader has given this node records that continue its log."""
        self._kept = None
