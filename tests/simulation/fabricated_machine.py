"""What a fabricated cluster is made of: keys and addresses of its nodes, machines, and disks that keep bytes twice."""

from __future__ import annotations

from uuid import UUID

import attrs

from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.facts.device import Device

CLUSTER_ID = "fabricated-cluster"
DIRECTORY = "/data/log-0"
SEGMENT = f"{DIRECTORY}/00000000000000000000.log"


def key_of(node_id: int, incarnation: int = 0) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=1000 * (incarnation + 1) + node_id))


def endpoints_of(node_id: int) -> Endpoints:
    return Endpoints({"CONTROLLER": Endpoint(f"node-{node_id}", 9093)})


def voters_of(*members: int | ReplicaKey) -> VoterSet:
    keys = [member if isinstance(member, ReplicaKey) else key_of(member) for member in members]
    return VoterSet(Voter(key, endpoints_of(key.id)) for key in keys)


@attrs.define
class FabricatedDisk:
    """Files by path: as readers see them, and what of them is durable."""

    files: dict[str, bytes] = attrs.field(factory=dict)
    durable: dict[str, bytes] = attrs.field(factory=dict)

    def peek(self, path: str) -> bytes | None:
        return self.files.get(path)

    def peek_names(self, directory: str) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self.files if path.rpartition("/")[0] == directory)

    def durable_bytes(self, path: str) -> bytes | None:
        return self.durable.get(path)

    def durable_slice(self, path: str, start: int, size: int) -> bytes | None:
        content = self.durable.get(path)
        return None if content is None else content[start : start + size]

    def durable_size(self, path: str) -> int | None:
        content = self.durable.get(path)
        return None if content is None else len(content)

    def store(self, path: str, content: bytes) -> None:
        self.files[path] = self.durable[path] = content


@attrs.define
class FabricatedBeliefs:
    """The Beliefs of a node, which a story sets as it likes."""

    log_start_offset: int
    voters: VoterSet
    voters_offset: int | None
    synced_ends: dict[ReplicaKey, int] = attrs.field(factory=dict)
    """What it, as leader, believes: the exclusive synced end of each voter."""
    noticed: set[OffsetAndEpoch] = attrs.field(factory=set)
    """The snapshots that it knows to be corrupt."""
    target: tuple[ReplicaKey, ...] = ()
    lagging: set[ReplicaKey] = attrs.field(factory=set)
    """The replicas that it, as leader, believes not to keep up."""
    old_copies: set[ReplicaKey] = attrs.field(factory=set)
    """The voters of which it has said that an old copy of their directory runs."""

    def knows_corrupt(self, snapshot_id: OffsetAndEpoch) -> bool:
        return snapshot_id in self.noticed

    def keeps_up(self, key: ReplicaKey) -> bool:
        return key not in self.lagging

    def synced_end_of(self, voter: Voter) -> int | None:
        return self.synced_ends.get(voter.key)


class FabricatedMachine:
    def __init__(self, id: int, static_voters: VoterSet) -> None:
        self.id = id
        self.static_voters = static_voters
        self.disk = FabricatedDisk()
        self.device = Device(self.disk, DIRECTORY, lambda: static_voters)
        self.beliefs = FabricatedBeliefs(0, static_voters, None)
        """Of the present process, or the last one."""

    def insert_blank_disk(self) -> None:
        self.disk = FabricatedDisk()
        self.device.insert(self.disk)

    def damage(self, path: str, content: bytes) -> None:
        """The medium gives other bytes than were written."""
        self.disk.store(path, content)
        self.device.note_damage(path)
