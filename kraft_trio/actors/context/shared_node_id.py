"""Detects that two processes have the same node id, and logs it.

The process that does not lead hears of a leader with its own id, and cannot follow it.  One that is no voter asks the
leader about the voter of its id (`SharedIdWatch`).  Of two observers, and of two processes on copies of one directory,
only the leader knows (`SharedReplicas`).  A replaced disk looks the same for a while, until the voters notice that the
old incarnation is gone.
"""

from __future__ import annotations

import math
from typing import Final

import attrs
import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import Voter
from kraft_trio.wire.apis.describe_quorum import DESCRIBE_QUORUM, DescribeQuorumRequest
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

SAID_EVERY_S: Final = 60.0
SHARED: Final = "two nodes share one id"
FORMER_DISK: Final = "peers name this node as leader"
WHAT_TO_DO: Final = "stop one of the two, and format a directory of its own for it with another node.id"
NO_LEADER: Final = (
    "its disk was replaced, and nobody was elected since: start the voters that still have their disks; "
    "`kraft explain` says whether they are a majority"
)
MAX_IDS: Final = 1000
COMEBACKS: Final = 4
"""So often in a row, one fetches again after the other.  A late Fetch of a replaced disk makes two of these."""


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


class SharedIdWatch:
    """Asks the leader whether the voter that has this node's id, but another directory, keeps fetching.

    If it does not, it is the old incarnation of a node on a new disk.  A second node with the leader's own id cannot
    follow it; `SharedNodeId` hears of that.
    """

    def __init__(self, context: EpochContext, role: Follower) -> None:
        self._context = context
        self._role = role
        self._shared_id = SharedNodeId(context.key.id)
        self._was_alive = False

    async def until_voters_change(self) -> None:
        """Wait for another voter set, but no longer than until the next look is due."""
        log, own = self._context.log, self._context.key
        voter = log.voters.voters.get(own.id)
        if voter is None or voter.key.names(own.id, own.directory_id):
            self._was_alive = False
            await log.voters_changed.park()
            return
        # An old incarnation may have fetched just before this look, but not before the next one.
        was_alive, self._was_alive = self._was_alive, await self._is_alive(voter)
        if was_alive and self._was_alive:
            self._shared_id.is_voter(voter.key)
        with trio.move_on_after(self._context.config.fetch_timeout_ms / 1000):
            await log.voters_changed.park()

    async def _is_alive(self, voter: Voter) -> bool:
        """Whether the voter has fetched within half a fetch timeout.  False if the leader does not answer."""
        config = self._context.config
        endpoint = self._role.leader_endpoints.get(config.controller_listener_name)
        if endpoint is None:
            return False
        try:
            described = await self._context.client.request_apart(
                endpoint, DESCRIBE_QUORUM, DescribeQuorumRequest(config.topic_name), config.request_timeout_ms
            )
        except (NetworkError, UnsupportedVersionError):
            return False
        if (described.error or described.partition_error) != ErrorCode.none:
            return False
        fetched_ms = {replica.key: replica.last_fetch_timestamp_ms for replica in described.voters}
        # The leader's own entry has the current time of its clock.
        now_ms = next((at_ms for key, at_ms in fetched_ms.items() if key.id == described.leader_id), -1)
        last_ms = fetched_ms.get(voter.key, -1)
        return min(now_ms, last_ms) >= 0 and now_ms - last_ms < config.fetch_timeout_ms / 2


@attrs.frozen
class _Process:
    """One process, as far as its Fetches tell it from another."""

    key: ReplicaKey
    connection: object = attrs.field(eq=id)


@attrs.define
class _Sharing:
    """The processes that have one id."""

    latest: _Process
    """Which of them has fetched last."""
    latest_s: float
    other: _Process | None = None
    """Which of them has fetched before that one."""
    other_s: float = 0.0
    comebacks: int = 0


class SharedReplicas:
    """Notes the Fetches of replicas in one leader's epoch, and logs when two processes with one id fetch by turns.

    A node on a new disk fetches with another directory id, too, but its old incarnation does not come back.  Nor does
    a connection that a process has given up for another one.
    """

    def __init__(self, node_id: int, within_s: float) -> None:
        """`within_s`: for how long a replica that runs may be silent."""
        self._shared_id = SharedNodeId(node_id)
        self._within_s = within_s
        self._by_id: dict[int, _Sharing] = {}

    def fetched(self, replica: ReplicaKey, now_s: float, connection: object = None, waiting_on: object = None) -> bool:
        """Note a Fetch on `connection`, while another Fetch of the same replica waits on the connection `waiting_on`.

        A process sends no Fetch while it waits for the response to another one, unless it has given that up.  Returns
        whether two processes fetch as this replica.
        """
        process = _Process(replica, connection)
        known = self._by_id.get(replica.id)
        if known is None:
            if len(self._by_id) >= MAX_IDS:
                del self._by_id[next(iter(self._by_id))]
            known = self._by_id[replica.id] = _Sharing(process, now_s)
        elif process != known.latest:
            is_open = replica == known.latest.key and waiting_on in (None, connection)
            if is_open and process != known.other:
                known.latest = process  # It has probably reconnected.
            else:
                comes_back = process == known.other and now_s - known.other_s < self._within_s
                known.comebacks = known.comebacks + (not is_open) if comes_back else 0
                known.latest, known.other, known.other_s = process, known.latest, known.latest_s
                if known.comebacks >= COMEBACKS:
                    self._shared_id.both_fetch(replica, known.other.key)
        known.latest_s = now_s
        return known.comebacks >= COMEBACKS and now_s - known.other_s < self._within_s
