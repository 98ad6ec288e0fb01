"""Short names for replica keys and voter sets, as the protocol tests write them."""

from __future__ import annotations

from uuid import UUID

from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet


def key(id: int, disk: str = "a") -> ReplicaKey:
    """Replica `id` on its first disk, "a", or a later one; "?" for an unknown directory id."""
    return ReplicaKey(id) if disk == "?" else ReplicaKey(id, UUID(int=0x1000 * id + ord(disk)))


def endpoints_of(id: int) -> Endpoints:
    return Endpoints({"CONTROLLER": Endpoint(f"host-{id}", 9093)})


def voters(*members: int | ReplicaKey) -> VoterSet:
    keys = [member if isinstance(member, ReplicaKey) else key(member) for member in members]
    return VoterSet([Voter(member, endpoints_of(member.id)) for member in keys])


def static_voters(*ids: int) -> VoterSet:
    return voters(*(key(id, "?") for id in ids))


def at(text: str) -> OffsetAndEpoch:
    """`at("12@3")`: offset 12, epoch 3, as OffsetAndEpoch prints itself."""
    offset, epoch = text.split("@")
    return OffsetAndEpoch(int(offset), int(epoch))
