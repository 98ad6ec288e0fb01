"""How far one message may move a node's epoch.

Epochs are int32 and never fall, so a message that could name any epoch could use up all of them: no election can
follow the last one.  Two kinds of message name an epoch.

* A *request* comes from anybody who can connect.  It moves the epoch by what is left of an allowance, which refills
  slowly, and never by more than one within the last million of epochs.
* An *answer* to this node's own request comes from an address that the configuration or the voter set names.  It moves
  the epoch as far as it says, but leaves room for half a million elections.

A node that a request finds too far behind therefore stays in its epoch, and learns the newer one by its own requests:
every role but that of a leader with a majority sends some (discovery, Fetch, pre-votes, votes, BeginQuorumEpoch).
"""

from __future__ import annotations

from typing import Final

import attrs

MAX_EPOCH: Final = 2**31 - 1
"""The last epoch there is.  A node in it cannot campaign."""

LAST_REQUESTED_EPOCH: Final = 2**31 - 2**20
"""Above it a request moves a node by one epoch at most."""

LAST_ANSWERED_EPOCH: Final = 2**31 - 2**19
"""Above it an answer moves a node by EPOCHS_AT_ONCE at most."""

EPOCHS_AT_ONCE: Final = 4096
"""The whole allowance: twice the 2,000 epochs that `kraft storage recover` may skip."""

EPOCHS_PER_S: Final = 1
"""How fast the allowance refills.  At this rate the epochs last for 68 years; elections in a row take one each."""


@attrs.frozen
class EpochAllowance:
    """By how many epochs requests may still move this node: `epochs` of them at `at_s`, more as time passes."""

    at_s: float
    epochs: float = EPOCHS_AT_ONCE

    def available(self, now_s: float) -> int:
        """How many there are now, whole ones."""
        return int(min(EPOCHS_AT_ONCE, self.epochs + max(0.0, now_s - self.at_s) * EPOCHS_PER_S))

    def spend(self, epochs: int, now_s: float) -> EpochAllowance:
        """What is left after a request has moved the epoch by so many."""
        left = min(EPOCHS_AT_ONCE, self.epochs + max(0.0, now_s - self.at_s) * EPOCHS_PER_S)
        return EpochAllowance(now_s, max(0.0, left - epochs))


def highest_requested_epoch(own_epoch: int, available: int) -> int:
    """The highest epoch (inclusive) that a request may move a node to that is in `own_epoch`."""
    if available <= 0:
        return own_epoch
    return min(MAX_EPOCH, max(own_epoch + 1, min(own_epoch + available, LAST_REQUESTED_EPOCH)))


def highest_answered_epoch(own_epoch: int) -> int:
    """The highest epoch (inclusive) that the answer to its own request may move a node to that is in `own_epoch`."""
    return min(MAX_EPOCH, max(own_epoch + EPOCHS_AT_ONCE, LAST_ANSWERED_EPOCH))
