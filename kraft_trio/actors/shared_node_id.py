"""Detects that two processes have the same node id, and logs it.

The process that does not lead hears of a leader with its own id, and cannot follow it.  Of two observers, and of two
processes on copies of one directory, only the leader knows.  A replaced disk looks the same for a while, until the
voters notice that the old incarnation is gone.
"""

from __future__ import annotations

import math
from typing import Final

import trio

from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import Endpoints, ReplicaKey

log = get_logger(__name__)

SAID_EVERY_S: Final = 60.0
SHARED: Final = "two nodes share one id"
FORMER_DISK: Final = "peers name this node as leader"
WHAT_TO_DO: Final = "stop one of the two, and format a directory of its own for it with another node.id"
NO_LEADER: Final = (
    "its disk was replaced, and nobody was elected since: start the voters that still have their disks; "
    "`kraft explain` says whether they are a majority"
)


class SharedNodeId:
    """What one node has heard about another node with its id."""

    def __init__(self, node_id: int, grace_s: float = 0.0) -> None:
        """`grace_s`: for how many seconds the voters may name a leader that is gone."""
        self._node_id = node_id
        self._grace_s = grace_s
        self._leads_in: int | None = None
        self._since_s = math.inf
        self._answers = False
        self._said_s = -math.inf

    def leads(self, epoch: int, *, answers: bool) -> None:
        """Note that a node with this id is the leader of an epoch that this process does not lead.

        `answers`: it has said so itself.  Otherwise a peer has named it.
        """
        now_s = trio.current_time()
        if epoch != self._leads_in:
            self._leads_in, self._since_s, self._answers = epoch, now_s, False
        self._answers = self._answers or answers
        if now_s < self._since_s + self._grace_s:
            return
        if self._answers:
            self._say(f"the leader of epoch {epoch} has this node's id and is another process")
        else:
            reason = f"they do so for epoch {epoch}, and no other process answers with its id"
            self._say_now_and_then(FORMER_DISK, self._node_id, reason, NO_LEADER)

    def fetches(self, replica: ReplicaKey) -> None:
        """Note that a replica with this id has sent a Fetch to this process, which leads."""
        self._say(f"{replica} fetches from this node, which leads")

    def is_voter(self, voter: ReplicaKey) -> None:
        """Note that the voter of this id is another process, which fetches from the leader."""
        self._say(f"voter {voter} has this node's id, and is another process that fetches from the leader")

    def is_copied(self, endpoints: Endpoints) -> None:
        """Note that another process has this node's id and directory id, and has told the leader these endpoints."""
        where = ", ".join(f"{name}://{endpoint}" for name, endpoint in endpoints)
        self._say(f"another process, at {where}, runs on a copy of this node's directory")

    def both_fetch(self, replica: ReplicaKey, other: ReplicaKey) -> None:
        """Note that two processes have one id, which is not this node's.  Both fetch from this node, which leads.

        They run on copies of one directory if they have the same key.
        """
        who = f"{replica} and {other} both" if replica != other else f"two processes on copies of the disk of {replica}"
        self._say(f"{who} fetch from this node, which leads", replica.id)

    def _say(self, reason: str, node_id: int | None = None) -> None:
        self._say_now_and_then(SHARED, self._node_id if node_id is None else node_id, reason, WHAT_TO_DO)

    def _say_now_and_then(self, event: str, node_id: int, reason: str, what_to_do: str) -> None:
        now_s = trio.current_time()
        if now_s >= self._said_s + SAID_EVERY_S:
            self._said_s = now_s
            log.error(event, node_id=node_id, reason=reason, what_to_do=what_to_do)
