"""Two processes with one node id: each says so, as neither can do anything about it.

The one that does not lead hears of a leader with its own id, and could follow nobody.  A disk that was replaced looks
the same for a while: the others name the old incarnation until they notice that it is gone.
"""

from __future__ import annotations

import math
from typing import Final

import structlog
import trio

from kraft_trio.protocol.types import ReplicaKey

log = structlog.get_logger(__name__)

SAID_EVERY_S: Final = 60.0
WHAT_TO_DO: Final = "stop one of the two, and format a directory of its own for it with another node.id"


class SharedNodeId:
    """What one node has heard about another one with its id."""

    def __init__(self, node_id: int, grace_s: float = 0.0) -> None:
        """`grace_s` is how long the voters may go on to name a leader that is gone."""
        self._node_id = node_id
        self._grace_s = grace_s
        self._leads_in: int | None = None
        self._since_s = math.inf
        self._said_s = -math.inf

    def leads(self, epoch: int) -> None:
        """A peer says that a node with this id leads that epoch; this process does not."""
        now_s = trio.current_time()
        if epoch != self._leads_in:
            self._leads_in, self._since_s = epoch, now_s
        if now_s >= self._since_s + self._grace_s:
            self._say(f"the leader of epoch {epoch} has this node's id and is another process")

    def fetches(self, replica: ReplicaKey) -> None:
        """A replica with this id has sent a Fetch to this process, which leads."""
        self._say(f"{replica} fetches from this node, which leads")

    def _say(self, reason: str) -> None:
        now_s = trio.current_time()
        if now_s >= self._said_s + SAID_EVERY_S:
            self._said_s = now_s
            log.error("two nodes share one id", node_id=self._node_id, reason=reason, what_to_do=WHAT_TO_DO)
