"""What a node believes: the invariants compare it with the facts, and never take it for one."""

from __future__ import annotations

from typing import Protocol

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.protocol.voter_set import Voter, VoterSet


class Beliefs(Protocol):
    """What the node of a running process takes for true."""

    @property
    def log_start_offset(self) -> int:
        """Where its log begins (inclusive)."""
        ...

    @property
    def voters(self) -> VoterSet:
        """The voter set that it counts by."""
        ...

    @property
    def voters_offset(self) -> int | None:
        """The offset of the record that brought this set; None if it comes from the configuration."""
        ...

    def knows_corrupt(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether it has noticed that this snapshot is corrupt."""
        ...

    def synced_end_of(self, voter: Voter) -> int | None:
        """Up to where (exclusive) it, as leader, takes the voter's log for synced; None if it does not know."""
        ...
