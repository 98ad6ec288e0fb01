"""Limits how far one message may move a node's epoch (docs/explanation/protocol.md#how-far-a-message-moves-an-epoch).

A *request* comes from anyone who can connect.  It moves the epoch by what is left of an allowance that refills slowly,
and by one within the last million epochs.  An *answer* to this node's own request comes from an address in the
configuration or the voter set.  It moves the epoch further, but leaves room for half a million elections.
"""

from __future__ import annotations

from typing import Final

import attrs

MAX_EPOCH: Final = 2**31 - 1
"""The last epoch.  A node in it cannot campaign."""

LAST_REQUESTED_EPOCH: Final = 2**31 - 2**20
"""Above this epoch, a request moves a node by at most one."""

LAST_ANSWERED_EPOCH: Final = 2**31 - 2**19
"""Above this epoch, an answer moves a node by at most EPOCHS_AT_ONCE."""

EPOCHS_AT_ONCE: Final = 4096
"""The whole allowance: twice the 2,000 epochs that `kraft storage recover` may skip."""

EPOCHS_PER_S: Final = 1
"""How fast the allowance refills.  At this rate the epochs last for 68 years."""


@attrs.frozen
class EpochAllowance:
    """The allowance of requests: `epochs` at the time `at_s`, and more as time passes."""

    at_s: float
    epochs: float = EPOCHS_AT_ONCE

    def available(self, now_s: float) -> int:
        """The whole epochs that are available now."""
        return int(min(EPOCHS_AT_ONCE, self.epochs + max(0.0, now_s - self.at_s) * EPOCHS_PER_S))

    def spend(self, epochs: int, now_s: float) -> EpochAllowance:
        """The allowance after a request has moved the epoch by `epochs`."""
        left = min(EPOCHS_AT_ONCE, self.epochs + max(0.0, now_s - self.at_s) * EPOCHS_PER_S)
        return EpochAllowance(now_s, max(0.0, left - epochs))


def highest_requested_epoch(own_epoch: int, available: int) -> int:
    """The highest epoch (inclusive) to which a request may move a node in `own_epoch`."""
    if available <= 0:
        return own_epoch
    return min(MAX_EPOCH, max(own_epoch + 1, min(own_epoch + available, LAST_REQUESTED_EPOCH)))


def highest_answered_epoch(own_epoch: int) -> int:
    """The highest epoch (inclusive) to which an answer to its own request may move a node in `own_epoch`."""
    return min(MAX_EPOCH, max(own_epoch + EPOCHS_AT_ONCE, LAST_ANSWERED_EPOCH))
