"""How far a streaming query has read a quorum's log: what Spark keeps in the query's checkpoint.

A position is what a Fetch of KIP-595 says of its sender: an offset, and the epoch of the record before it.  With the
cluster's id they tell another log from this one.  Spark keeps the end of each micro-batch, but never where the first
one began, and takes a start and an end for what is between them.  So a position also says where reading began, and how
often it began anew because records were lost: from two positions the records of a batch follow, each time the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from kraft_trio.errors import KraftError

UNKNOWN_EPOCH: Final = -1
"""The epoch where there is no record before the offset, or none that anyone has any more."""


class PositionError(KraftError):
    """A checkpoint has a position that this source has not written."""


@attrs.frozen
class StreamPosition:
    """A place in the log of one cluster."""

    cluster_id: str | None
    """None where no node tells it."""
    offset: int
    """Exclusive end of what was read: the next offset."""
    epoch: int
    """Leader epoch of the record before `offset`, or UNKNOWN_EPOCH."""
    began_at: int
    """Where reading began: the first offset, inclusive, since the last loss."""
    losses: int = 0
    """How often reading began anew because records were lost (failOnDataLoss=false)."""

    @classmethod
    def beginning(cls, cluster_id: str | None, offset: int, epoch: int = UNKNOWN_EPOCH) -> StreamPosition:
        """Where a query begins that has read nothing."""
        return cls(cluster_id, offset, epoch, offset)

    def advanced_to(self, offset: int, epoch: int) -> StreamPosition:
        """After more of the same log."""
        return attrs.evolve(self, offset=offset, epoch=epoch)

    def begun_anew(self, offset: int) -> StreamPosition:
        """At the first offset that there is after a loss."""
        return attrs.evolve(self, offset=offset, epoch=UNKNOWN_EPOCH, began_at=offset, losses=self.losses + 1)

    def as_json(self) -> dict[str, Any]:
        """For Spark, which takes two positions for the same where their texts are."""
        return {
            "clusterId": self.cluster_id,
            "offset": self.offset,
            "epoch": self.epoch,
            "beganAt": self.began_at,
            "losses": self.losses,
        }

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> StreamPosition:
        """Raises PositionError, naming the field, its value and what was expected."""
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
    """The first offset (inclusive) of the micro-batch that Spark gives by its start and its end.

    That is where the start ends, but for the batches that begin anew: the first one, whose start Spark asks for again
    after a restart, when the log may begin elsewhere; and one after a loss.
    """
    begins_anew = (start.losses, start.began_at) != (end.losses, end.began_at)
    return end.began_at if begins_anew else start.offset
