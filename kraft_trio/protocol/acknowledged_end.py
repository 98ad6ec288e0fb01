"""Whether a replica still has the records that it acknowledged, judged by the offsets from which it fetches.

A Fetch position is a promise: everything below it is durable on that replica.  A replica keeps its promises over
restarts, because its directory keeps them.  So a position below an earlier one means that an old copy of the directory
has been started.

A Fetch that arrives late looks the same.  Its connection was given up, because a replica sends one Fetch at a time.  So
a lower position is certain only when another Fetch follows on the same connection.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class CameBack:
    """A replica came back without records that it had acknowledged.  Offsets are exclusive ends."""

    at: int
    """Where its log ended."""
    acknowledged: int


@attrs.define
class AcknowledgedEnd:
    """What one replica has acknowledged to one leader.  Offsets are exclusive ends."""

    offset: int = 0
    """The furthest end that it has acknowledged."""
    is_lacking: bool = False
    """Whether the replica certainly lacks records below `offset`.  It counts as blank until it has fetched them."""
    _fell_on: object = None
    """The connection of the Fetch with a lower position, until that is certain."""
    _fell_to: int = 0

    def fetches(self, offset: int, connection: object) -> CameBack | None:
        """Note a Fetch from that offset.  `connection` is any object, which is compared by identity, or None.

        Returns the return of a replica that lacks records, once that is certain.
        """
        came_back = None
        if connection is not None and connection is self._fell_on:
            self.is_lacking, self._fell_on = True, None
            came_back = CameBack(self._fell_to, self.offset)
        if offset >= self.offset:
            self.offset, self.is_lacking = offset, False
        elif not self.is_lacking:
            self._fell_on, self._fell_to = connection, offset
        return came_back
