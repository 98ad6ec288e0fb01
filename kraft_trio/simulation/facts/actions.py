"""Which actions of the specification in spec/ a run takes, and which of them follow each other on a node.

The actions are those of `Next` in spec/KRaft.tla, by their names.  `scripts/trace-check` asks TLC whether a trace is a
behaviour; this only counts, so it needs no TLC and costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Final

import attrs

from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.network.message import Message
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.wire.apis.end_quorum_epoch import END_QUORUM_EPOCH, EndQuorumEpochRequest

_U, _P, _C, _F, _L, _R = "Unattached", "Prospective", "Candidate", "Follower", "Leader", "Resigned"
ROLES: Final = (_U, _P, _C, _F, _L, _R)
_ANY: Final = frozenset(ROLES)


def _of(*roles: str) -> frozenset[str]:
    return frozenset(roles)


@attrs.frozen
class Roles:
    """The roles in which a node can take an action, and those in which it can be afterwards."""

    before: frozenset[str]
    after: frozenset[str] | None = None
    """None: that from before."""

    def can_precede(self, other: Roles) -> bool:
        return bool((self.after or self.before) & other.before)


ACTIONS: Final[Mapping[str, Roles]] = MappingProxyType(
    {
        "BecomeProspective": Roles(_of(_U, _F, _C), _of(_P)),
        "LosePreVote": Roles(_of(_P), _of(_U, _F)),
        "GrantPreVote": Roles(_of(_U, _P, _C, _F, _R)),
        "BecomeCandidate": Roles(_of(_P), _of(_C)),
        "GrantVote": Roles(_of(_U, _P)),
        "BecomeLeader": Roles(_of(_C), _of(_L)),
        "Resign": Roles(_of(_L), _of(_R)),
        "LeaveResigned": Roles(_of(_R), _of(_U)),
        "LeaveOnceCommitted": Roles(_of(_L), _of(_R)),
        "HearOfEpoch": Roles(_ANY, _of(_U)),
        "HearOfLeader": Roles(_ANY, _of(_F)),
        "BeginQuorumEpoch": Roles(_of(_P), _of(_F)),
        "EndQuorumEpoch": Roles(_of(_F)),
        "Restart": Roles(_ANY, _of(_U, _C, _F, _R)),
        "SwapDisk": Roles(_ANY, _of(_U, _C, _F, _R)),
        "AppendRecord": Roles(_of(_L)),
        "AddVoter": Roles(_of(_L)),
        "RemoveVoter": Roles(_of(_L)),
        "UpgradeVersion": Roles(_of(_L)),
        "AdvanceHighWatermark": Roles(_of(_L)),
        "Fetch": Roles(_of(_F)),
        "Truncate": Roles(_of(_F)),
        "LearnHighWatermark": Roles(_of(_F)),
        "InstallSnapshot": Roles(_of(_F)),
        "Sync": Roles(_ANY),
        "TakeSnapshot": Roles(_ANY),
        "Trim": Roles(_ANY),
    }
)
"""The actions that nodes take.  ReplaceAtOnce, which only a mutation has, is not among them."""

PAIRS: Final = tuple(
    (one, other) for one, other in product(ACTIONS, repeat=2) if ACTIONS[one].can_precede(ACTIONS[other])
)
"""Neighbours that the roles allow.  Some are impossible for other reasons."""

_BY_CAUSE: Final = {
    "HIGHER_EPOCH_SEEN": "HearOfEpoch",
    "ELECTION_TIMED_OUT": "BecomeProspective",
    "FETCH_TIMED_OUT": "BecomeProspective",
    "PRE_VOTE_WON": "BecomeCandidate",
    "PRE_VOTE_LOST": "LosePreVote",
    "PRE_VOTE_LOST_TO_LEADER": "LosePreVote",
    "ELECTION_WON": "BecomeLeader",
    "RESIGNED": "Resign",
}
"""Actions by the event of the transition table.  A vote that is granted has a line of its own in the log."""

_DONE: Final = {"truncate": "Truncate", "sync": "Sync", "trim": "Trim"}

REMOVED: Final = "removed from the voters"
"""Why a leader leaves whose removal is committed."""


@attrs.define
class _Node:
    directory: str | None = None
    """The one in which its last process ran."""
    last: str | None = None
    """Its last action."""
    known_leader: object = None
    """The leader of its epoch, also one that it has lost."""
    restarts_as: str | None = None
    """What the first role of its process stands for; None for its first process."""
    is_elected: bool = False
    """Whether it has been elected and has not yet appended the first batch of its epoch."""
    has_installed: bool = False
    """Whether a snapshot has just replaced its log."""


@attrs.define
class ActionCoverage:
    """Listens to the trace and the messages of one run."""

    facts: RunFacts
    actions: set[str] = attrs.field(factory=set)
    pairs: set[tuple[str, str]] = attrs.field(factory=set)
    """Actions of a node with the one that it took next."""
    on_taken: Callable[[int, str], object] = lambda _node, _action: None
    """Called with the id of a node and the action that it takes, in the same step."""
    _nodes: dict[int, _Node] = attrs.field(factory=dict)

    def heard(self, event: TraceEvent) -> None:
        """Take in an event of the trace."""
        if event.node is None:
            return
        node = self._nodes.get(event.node)
        if node is None:
            node = self._nodes[event.node] = _Node()
        action = self._action(node, event)
        if action is not None:
            self._taken(event.node, node, action)

    def delivered(self, message: Message) -> None:
        """Take in a message that a node has received: a follower that is told of a resignation leaves no event."""
        if message.api_key != END_QUORUM_EPOCH.key or not message.is_request:
            return
        replica, request = self.facts.replica_at(message.target), message.value
        if replica is None or replica.view is None or not isinstance(request, EndQuorumEpochRequest):
            return
        view = replica.view
        is_told = (view.epoch, view.leader_id) == (request.leader_epoch, request.leader_id)
        if type(view.role).__name__ == _F and is_told and replica.key.id in self._nodes:
            self._taken(replica.key.id, self._nodes[replica.key.id], "EndQuorumEpoch")

    def _taken(self, node_id: int, node: _Node, action: str) -> None:
        self.actions.add(action)
        if node.last is not None:
            self.pairs.add((node.last, action))
        node.last = action
        self.on_taken(node_id, action)

    def _action(self, node: _Node, event: TraceEvent) -> str | None:
        kind = event.kind
        if kind in _DONE:
            return _DONE[kind]
        if kind == "append":
            return self._append(node, event)
        if kind == "high_watermark":
            is_brought, node.has_installed = node.has_installed, False
            # That of a snapshot comes with it.
            return None if is_brought else "AdvanceHighWatermark" if event.role == _L else "LearnHighWatermark"
        if kind == "log":
            return self._logged(node, event)
        if kind == "replace":
            node.has_installed = True
            return "InstallSnapshot"
        if kind == "role":
            node.known_leader = event.details["known_leader"]
            return node.restarts_as if event.details["was"] is None else None
        if kind == "start":
            before, node.directory = node.directory, str(event.details["directory_id"])
            node.is_elected = node.has_installed = False
            node.restarts_as = None if before is None else "Restart" if before == node.directory else "SwapDisk"
        return None

    def _append(self, node: _Node, event: TraceEvent) -> str | None:
        if event.role != _L:
            return "Fetch"
        if node.is_elected:
            # The first batch of an epoch is part of the election.
            node.is_elected = False
            return None
        sets = event.details["voters"]
        if not isinstance(sets, list) or not sets:
            return "AppendRecord"
        assert event.node is not None
        before = self.facts.voters.last(self.facts.present[event.node])
        if before.is_configured:
            return "UpgradeVersion"
        size, size_before = len(str(sets[-1]).split()), len(before.voters)
        # The same set has another address or another target.
        return "AddVoter" if size > size_before else "RemoveVoter" if size < size_before else "AppendRecord"

    def _logged(self, node: _Node, event: TraceEvent) -> str | None:
        details = event.details
        if event.cause == "role":
            return self._transition(node, event)
        if event.cause == "vote requested" and details["granted"]:
            return "GrantPreVote" if details["pre_vote"] else "GrantVote"
        return "TakeSnapshot" if event.cause == "snapshot taken" else None

    def _transition(self, node: _Node, event: TraceEvent) -> str | None:
        details, by = event.details, str(event.details["by"])
        if by == "LEADER_DISCOVERED":
            is_known = event.epoch == details["epoch"] and node.known_leader == details["leader_id"]
            return "BeginQuorumEpoch" if is_known and details["was"] == _P else "HearOfLeader"
        node.is_elected = by == "ELECTION_WON"
        if details["was"] == _R and by == "ELECTION_TIMED_OUT":
            return "LeaveResigned"
        return "LeaveOnceCommitted" if details["reason"] == REMOVED else _BY_CAUSE.get(by)
