"""Learns who leads, and that a leader has resigned (KIP-595 "BeginQuorumEpoch" and "EndQuorumEpoch")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from kraft_trio.protocol.epoch_limits import highest_answered_epoch
from kraft_trio.protocol.roles import Follower, Prospective, Role, leader_of
from kraft_trio.protocol.types import Endpoints, ReplicaKey


@attrs.frozen
class Fenced:
    """The epoch is older than this node's.  A request gets FENCED_LEADER_EPOCH; a response is only late."""

    current_epoch: int


@attrs.frozen
class TooFarAhead:
    """The epoch is higher than such a message may move this node to.  A request gets UNKNOWN_LEADER_EPOCH.

    Kafka's raft client ignores that error; INVALID_REQUEST would stop it
    (docs/reference/kafka.md#errors-that-stop-a-java-peer).
    """

    highest_epoch: int


@attrs.frozen
class InvalidRequest:
    """INVALID_REQUEST; the reason is for a human."""

    reason: str


@attrs.frozen
class InconsistentLeader:
    """Two leaders in one epoch.  A request gets INVALID_REQUEST; a response shows that the quorum is broken."""

    epoch: int
    known_leader_id: int | None
    named_leader_id: int


@attrs.frozen
class AlreadyFollowing:
    """Nothing new: this node already follows that leader, or knows it and cannot reach it."""


@attrs.frozen
class BecomeFollower:
    """Take the role Follower (LEADER_DISCOVERED)."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints


@attrs.frozen
class BecomeUnattached:
    """Take the role Unattached in that higher epoch (HIGHER_EPOCH_SEEN): no leader with an address is named."""

    epoch: int
    leader_id: int | None


@attrs.frozen
class LeaderResigned:
    """EndQuorumEpoch is accepted.  First apply `learned`, then set the timer to the successor's backoff."""

    learned: BecomeFollower | BecomeUnattached | AlreadyFollowing


Learned: TypeAlias = Fenced | TooFarAhead | InconsistentLeader | AlreadyFollowing | BecomeFollower | BecomeUnattached


def learn_leader(
    role: Role,
    self_key: ReplicaKey,
    leader_id: int | None,
    leader_epoch: int,
    leader_endpoints: Endpoints,
    highest_epoch: int | None = None,
) -> Learned:
    """Judge a message that names an epoch and perhaps its leader.

    `highest_epoch` (inclusive) is the highest to which it may move this node; the default is that of a response to this
    node's own request.  `leader_endpoints` come from the message or, if it has none, from the voter set.  A known
    leader is news only with more endpoints.  If a Prospective returned to it whenever a peer names it, no node
    could replace a leader that is gone.
    """
    if leader_epoch < role.epoch:
        return Fenced(role.epoch)
    if highest_epoch is None:
        highest_epoch = highest_answered_epoch(role.epoch)
    if leader_epoch > highest_epoch:
        return TooFarAhead(highest_epoch)
    known_leader_id = leader_of(role, self_key) if leader_epoch == role.epoch else None
    if leader_id is not None:
        if known_leader_id is not None and leader_id != known_leader_id:
            return InconsistentLeader(leader_epoch, known_leader_id, leader_id)
        if leader_id == self_key.id:
            if known_leader_id is None:
                return InconsistentLeader(leader_epoch, None, leader_id)
            return AlreadyFollowing()
    if leader_id is None or not len(leader_endpoints):
        return BecomeUnattached(leader_epoch, leader_id) if leader_epoch > role.epoch else AlreadyFollowing()
    known_endpoints = role.leader_endpoints if isinstance(role, Follower | Prospective) else Endpoints()
    if known_leader_id is not None and len(leader_endpoints) <= len(known_endpoints):
        return AlreadyFollowing()
    return BecomeFollower(leader_epoch, leader_id, leader_endpoints)


def hear_of_move(
    role: Role, leader_id: int | None, leader_epoch: int, leader_endpoints: Endpoints
) -> Prospective | None:
    """The role of a Prospective after a peer named another address of its leader, or None if that is not news.

    The Prospective keeps asking for pre-votes, and turns to that address if it loses.  The leader itself cannot reach a
    voter that has moved too, or that it no longer counts.
    """
    if not isinstance(role, Prospective) or (leader_epoch, leader_id) != (role.epoch, role.leader_id):
        return None
    if leader_id is None or all(role.leader_endpoints.get(name) == endpoint for name, endpoint in leader_endpoints):
        return None
    return attrs.evolve(role, leader_endpoints=Endpoints({**dict(role.leader_endpoints), **dict(leader_endpoints)}))


def find_leader_at(role: Role, leader_endpoints: Endpoints) -> Follower | None:
    """The role of a Follower after its leader has answered at those endpoints, or None if that is not news.

    A follower that cannot reach its leader also tries other addresses, such as the bootstrap servers.  It may find the
    leader there, while its log has an entry from before the leader moved.
    """
    if not isinstance(role, Follower):
        return None
    endpoints = Endpoints({**dict(role.leader_endpoints), **dict(leader_endpoints)})
    if endpoints == role.leader_endpoints:
        return None
    return attrs.evolve(role, leader_endpoints=endpoints, lost_pre_vote=False)


def begin_quorum_epoch(
    role: Role,
    self_key: ReplicaKey,
    leader_id: int,
    leader_epoch: int,
    leader_endpoints: Endpoints,
    highest_epoch: int,
) -> Learned | InvalidRequest:
    """Judge BeginQuorumEpoch.  The caller checks the voter key after the transition.

    `highest_epoch` (inclusive) is the highest to which a request may move this node (`epoch_limits`).  The request
    comes from the leader itself, so a Prospective that had lost this leader follows it again, and a Follower adopts a
    new address.  A leader that has resigned does not lead its epoch again: its request is late.
    """
    refusal = _refuse_sender(role, self_key, leader_id, leader_epoch)
    if refusal is not None:
        return refusal
    learned = learn_leader(role, self_key, leader_id, leader_epoch, leader_endpoints, highest_epoch)
    moved = isinstance(role, Follower) and len(leader_endpoints) > 0 and leader_endpoints != role.leader_endpoints
    if isinstance(learned, AlreadyFollowing) and moved:
        return BecomeFollower(leader_epoch, leader_id, leader_endpoints)
    if isinstance(learned, AlreadyFollowing) and isinstance(role, Prospective) and not role.leader_resigned:
        endpoints = leader_endpoints if len(leader_endpoints) else role.leader_endpoints
        return BecomeFollower(leader_epoch, leader_id, endpoints) if len(endpoints) else learned
    return learned


def end_quorum_epoch(
    role: Role,
    self_key: ReplicaKey,
    leader_id: int,
    leader_epoch: int,
    leader_endpoints: Endpoints,
    highest_epoch: int,
) -> LeaderResigned | Fenced | TooFarAhead | InvalidRequest | InconsistentLeader:
    """Judge EndQuorumEpoch; `successor_backoff_ms` says when the receiver then asks for pre-votes."""
    refusal = _refuse_sender(role, self_key, leader_id, leader_epoch)
    if refusal is not None:
        return refusal
    learned = learn_leader(role, self_key, leader_id, leader_epoch, leader_endpoints, highest_epoch)
    if isinstance(learned, Fenced | TooFarAhead | InconsistentLeader):
        return learned
    return LeaderResigned(learned)


def _refuse_sender(
    role: Role, self_key: ReplicaKey, leader_id: int, leader_epoch: int
) -> Fenced | InvalidRequest | None:
    """The leader itself sends these requests, so a valid one never names its receiver as leader."""
    if leader_epoch < role.epoch:
        return Fenced(role.epoch)
    if leader_id < 0:
        return InvalidRequest(f"leader id {leader_id}, expected 0 or more")
    if leader_id == self_key.id:
        return InvalidRequest(f"leader id {leader_id} is this node's own; two nodes share it, or the request strayed")
    return None


def preferred_successors(progress: Iterable[tuple[ReplicaKey, int]]) -> tuple[ReplicaKey, ...]:
    """The successors that a resigning leader prefers, by descending fetch offset and then by id.

    `progress` has the other voters with their fetch offsets (exclusive ends; -1 is unknown).
    """
    return tuple(key for key, _ in sorted(progress, key=lambda entry: (-entry[1], entry[0])))


def with_first(successors: Sequence[ReplicaKey], first: ReplicaKey | None) -> tuple[ReplicaKey, ...]:
    """The same successors, with the chosen one before all others."""
    return tuple(sorted(successors, key=lambda successor: successor != first))


def successor_position(self_key: ReplicaKey, preferred: Sequence[ReplicaKey]) -> int | None:
    """This node's place among the preferred successors, from 0, or None if it is not listed.

    Version 0 of EndQuorumEpoch lists only ids, which match any directory id.
    """
    places = (place for place, key in enumerate(preferred) if key.names(self_key.id, self_key.directory_id))
    return next(places, None)


def successor_backoff_ms(position: int | None, count: int, max_ms: int) -> int:
    """How long a follower waits after its leader resigned before it asks for pre-votes.

    The first of `count` successors does not wait, and an unlisted follower waits `max_ms`.  In between, the wait
    doubles from place to place, so that each successor has time to win before the next one asks.
    """
    if position is None:
        return max_ms
    if position == 0:
        return 0
    return min(max_ms, (max_ms >> (count - 1)) << (position - 1))
