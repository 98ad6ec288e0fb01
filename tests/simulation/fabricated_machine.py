"""What a fabricated cluster is made of: keys and addresses of its nodes, machines, and disks that keep bytes twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import attrs

from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.facts.replica import Replica

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


@attrs.define(eq=False)
class FabricatedMachine:
    id: int
    static_voters: VoterSet
    disk: FabricatedDisk = attrs.field(factory=FabricatedDisk)
    replica: Replica | None = None
    partition_path: str = DIRECTORY
    damaged_files: dict[str, bytes | None] = attrs.field(factory=dict)
    damaged_under_process: set[str] = attrs.field(factory=set)

    def damage(self, path: str, content: bytes) -> None:
        """The medium gives other bytes than were written."""
        self.disk.store(path, content)
        self.damaged_files[path] = content
        self.damaged_under_process.add(path)

    @property
    def has_bad_disk(self) -> bool:
        return bool(self.damaged_files)

    @property
    def config(self) -> Any:
        return SimpleNamespace(static_voter_set=lambda: self.static_voters)
