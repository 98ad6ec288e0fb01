"""Limits how far requests move this node's epoch, and logs requests of leaders that were refused."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.limits.refusals import Refusals
from kraft_trio.logs import get_logger
from kraft_trio.messages import BeginQuorumEpochReceived, ElectionMessage, EndQuorumEpochReceived, VoteReceived
from kraft_trio.protocol.epoch_limits import MAX_EPOCH, EpochAllowance, highest_requested_epoch
from kraft_trio.protocol.types import Endpoints

log = get_logger(__name__)

QUIET_S: Final = 10.0
"""Least time between two log lines about the same kind of refusal."""

ADDRESS: Final = "address"

RECOVER: Final = "stop every replica of the quorum and bring their epochs down with `kraft storage recover`"


class EpochGuard:
    """The allowance of one node (protocol/epoch_limits.py).  Election owns it; it is full after a restart."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._allowance = EpochAllowance(trio.current_time())
        self._said_at_s: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def highest_requested_epoch(self, own_epoch: int) -> int:
        """The highest epoch (inclusive) that a request may move this node to now."""
        return highest_requested_epoch(own_epoch, self._allowance.available(trio.current_time()))

    def moved(self, old_epoch: int, new_epoch: int, cause: ElectionMessage) -> None:
        """Note that the epoch has moved because of `cause`."""
        if isinstance(cause, VoteReceived | BeginQuorumEpochReceived | EndQuorumEpochReceived):
            self._allowance = self._allowance.spend(new_epoch - old_epoch, trio.current_time())
        if new_epoch == MAX_EPOCH:
            self.at_last_epoch()

    def at_last_epoch(self) -> None:
        """Log that this node is in the last epoch."""
        log.error("last epoch: no election can follow", epoch=MAX_EPOCH, to_do=RECOVER)

    def refused(self, kind: str, sender: str, named_epoch: int, own_epoch: int) -> None:
        """Count a message that named an epoch too far ahead, and log it."""
        self._refusals.epochs += 1
        if not self._is_to_be_said(kind):
            return
        log.warning(
            "epoch too far ahead, refused",
            message=kind,
            sender=sender,
            named_epoch=named_epoch,
            epoch=own_epoch,
            refused_since_last_line=self._unsaid.pop(kind, 0),
            to_do="none if the quorum is in that epoch: this node asks its voters and follows; "
            "else find who connects to the controller listener",
        )

    def refused_address(self, leader_id: int, named_epoch: int, endpoints: Endpoints) -> None:
        """Count a request of a leader with an address that nobody else knows, and log it."""
        self._refusals.addresses += 1
        if not self._is_to_be_said(ADDRESS):
            return
        log.warning(
            "leader at an unknown address, refused",
            leader_id=leader_id,
            named_epoch=named_epoch,
            endpoints=", ".join(f"{name}://{endpoint}" for name, endpoint in endpoints),
            refused_since_last_line=self._unsaid.pop(ADDRESS, 0),
            to_do="none if that voter has moved: this node follows once it no longer hears its leader; "
            "else find who connects to the controller listener",
        )

    def _is_to_be_said(self, kind: str) -> bool:
        now_s = trio.current_time()
        if now_s < self._said_at_s.get(kind, -QUIET_S) + QUIET_S:
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return False
        self._said_at_s[kind] = now_s
        return True
