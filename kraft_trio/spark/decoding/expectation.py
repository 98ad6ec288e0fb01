"""What the next batch of a file must contain, given the batches before it."""

from __future__ import annotations

import attrs


@attrs.frozen
class Expectation:
    """The offsets and epochs that may follow.

    A batch's CRC covers neither its base offset nor its epoch.  Only the continuity of batches reveals damage there.
    """

    base_offset: int
    """Base offset of the next batch: exactly this one, or at least this one if `is_exact` is False."""
    is_exact: bool = True
    other_base_offset: int | None = None
    """Another allowed base offset: if the previous batch's base offset is damaged, the one that a right offset would
    lead to.
    """
    epoch: int = 0
    """The next batch's epoch is at least this one."""
    doubtful_epoch: int | None = None
    """The previous batch's epoch, if it is later than the next one's; one of the two is wrong."""
    only_epoch: int | None = None
    """The epoch that every batch must have, in a snapshot."""

    def allows(self, base_offset: int) -> bool:
        if base_offset in (self.base_offset, self.other_base_offset):
            return True
        return not self.is_exact and base_offset > self.base_offset
