"""The position of a streaming query in a quorum's log, as stored in Spark's checkpoint.

Like a Fetch of KIP-595, a position has an offset and the epoch of the record before it.  Together with the cluster's
id, they distinguish one log from another.  Spark stores the end of each micro-batch, but not where the first one began,
and takes a start and an end to describe the batch between them.  A position therefore also holds where reading began,
and how often records were lost since.  Two positions then always give the same batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from kraft_trio.errors import KraftError

UNKNOWN_EPOCH: Final = -1
"""The epoch if there is no record before the offset, or nobody has it any more."""


class PositionError(KraftError):
    """A checkpoint has a position that this source did not write."""


@attrs.frozen
class StreamPosition:
    """A place in the log of one cluster."""

    cluster_id: str | None
    """None if no node reports it."""
    offset: int
    """Exclusive end of what was read, which is the next offset."""
    epoch: int
    """Leader epoch of the record before `offset`, or UNKNOWN_EPOCH."""
    began_at: int
    """The first offset read since the last loss, inclusive."""
    losses: int = 0
    """How often reading started over because records were lost (failOnDataLoss=false)."""

    @classmethod
    def beginning(cls, cluster_id: str | None, offset: int, epoch: int = UNKNOWN_EPOCH) -> StreamPosition:
        """The position of a query that has read nothing."""
        return cls(cluster_id, offset, epoch, offset)

    def advanced_to(self, offset: int, epoch: int) -> StreamPosition:
        """The position after reading more of the same log."""
        return attrs.evolve(self, offset=offset, epoch=epoch)

    def after_loss(self, offset: int) -> StreamPosition:
        """The position at the first existing offset after a loss."""
        return attrs.evolve(self, offset=offset, epoch=UNKNOWN_EPOCH, began_at=offset, losses=self.losses + 1)

    def as_json(self) -> dict[str, Any]:
        """As text, because Spark compares positions by their texts."""
        return {
            "clusterId": self.cluster_id,
            "offset": self.offset,
            "epoch": self.epoch,
            "beganAt": self.began_at,
            "losses": self.losses,
        }

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> StreamPosition:
        """Raises PositionError naming the field, its value and the expectation."""
        cluster_id = fields.get("clusterId")
        if cluster_id is not None and not isinstance(cluster_id, str):
            raise PositionError(f"checkpoint: clusterId={cluster_id!r}, expected a text or null in {dict(fields)}")
        numbers = {}
        for name, minimum in (("offset", 0), ("epoch", UNKNOWN_EPOCH), ("beganAt", 0), ("losses", 0)):
            value = fields.get(name)
            if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
                raise PositionError(
                    f"checkpoint: {name}={value!r}, expected a whole number of {minimum} or more in {dict(fields)}"
                )
            numbers[name] = value
        return cls(cluster_id, numbers["offset"], numbers["epoch"], numbers["beganAt"], numbers["losses"])


def first_offset_between(start: StreamPosition, end: StreamPosition) -> int:
    """Return the first offset (inclusive) of the micro-batch between these two positions.

    It is the start position's offset, except for two batches that start over.  One is the batch after a loss.  The
    other is the first batch: after a restart, Spark asks for its start again, and the log may begin elsewhere by then.
    """
    starts_over = (start.losses, start.began_at) != (end.losses, end.began_at)
    return end.began_at if starts_over else start.offset
