"""What the next batch of a file must say, given those before it."""

from __future__ import annotations

import attrs


@attrs.frozen
class Expectation:
    """The offsets and epochs that may follow.

    Neither base offset nor epoch is under a batch's CRC; that each batch continues the one before it is what tells
    damage there.
    """

    base_offset: int
    """Of the next batch: this one, or, where `is_exact` is False, this one or a later one."""
    is_exact: bool = True
    other_base_offset: int | None = None
    """Right as well: where the batch before has a wrong base offset, what would have followed a right one."""
    epoch: int = 0
    """The next batch's is this one or a later one."""
    doubtful_epoch: int | None = None
    """That of the batch before, where it is later than the next batch's: one of the two is wrong."""
    only_epoch: int | None = None
    """The epoch that every batch must have: a snapshot's."""

    def allows(self, base_offset: int) -> bool:
        if base_offset in (self.base_offset, self.other_base_offset):
            return True
        return not self.is_exact and base_offset > self.base_offset
