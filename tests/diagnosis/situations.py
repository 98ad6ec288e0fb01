"""Claims and reports of a quorum of three, from which findings are concluded."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs

from kraft_trio.diagnosis.findings.machines import DAY_MS
from kraft_trio.diagnosis.quorum_situation import Claim, FoundHere, LeaderReport, VoterReport
from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey, directory_id_to_text

UP = ReplicaHealth(Health.UP)
OFFLINE = ReplicaHealth(Health.OFFLINE, "last fetched 9 s ago")
OLD, NEW = UUID(int=1), UUID(int=2)
LAGGING = ReplicaHealth(Health.LAGGING, "caught up 9 s ago")


def says(node_id: int, epoch: int = 5, leader: int | None = 1, end: tuple[int, int] = (10, 5), **more: Any) -> Claim:
    fields = {"voter_ids": (1, 2, 3), "cluster_id": "c", "log_end": OffsetAndEpoch(*end), **more}
    return Claim(f"host{node_id}:9093", node_id=node_id, epoch=epoch, leader_id=leader, **fields)


def disk(node_id: int, directory_id: UUID, **more: Any) -> Claim:
    """A node of that directory id, in a quorum whose voters all have OLD."""
    keys = tuple(ReplicaKey(voter_id, OLD) for voter_id in (1, 2, 3))
    return says(node_id, directory_id=directory_id, voter_keys=keys, **more)


def keys_of_list(number: int) -> tuple[ReplicaKey, ...]:
    """A list of three voters, with directory ids of its own."""
    return tuple(ReplicaKey(voter_id, UUID(int=10 * number + voter_id)) for voter_id in (1, 2, 3))


def keys_text(number: int) -> str:
    return ", ".join(map(str, keys_of_list(number)))


def listed(node_id: int, number: int) -> Claim:
    """A node that was formatted with that list, in a quorum that never had a leader."""
    [own] = [key for key in keys_of_list(number) if key.id == node_id]
    told: dict[str, Any] = {"directory_id": own.directory_id, "voter_keys": keys_of_list(number)}
    initial = f"{node_id}@host{node_id}:9093:{directory_id_to_text(own.directory_id)}"
    return says(node_id, epoch=0, leader=None, end=(0, 0), as_initial=initial, **told)


def static(node_id: int, *voter_ids: int, leader: int | None = 1) -> Claim:
    """A controller whose file names these static voters."""
    return says(node_id, leader=leader, voter_ids=voter_ids, kraft_version=0, is_controller=True)


def silent(node_id: int) -> Claim:
    return Claim(f"host{node_id}:9093", "connection refused", node_id=node_id)


def refuses_login(node_id: int) -> Claim:
    return Claim(f"host{node_id}:9093", "SASL: x", node_id=node_id, refused_login="User:op")


def fails_tls(node_id: int, problem: str = "TLS handshake failed: certificate has expired") -> Claim:
    return Claim(f"host{node_id}:9093", problem, node_id=node_id)


def kafka(node_id: int, leader: int | None) -> Claim:
    """A controller of Kafka that does not lead tells no more."""
    return Claim(f"host{node_id}:9093", node_id=node_id, cluster_id="c", leader_id=leader)


def registered(node_id: int, **more: Any) -> Claim:
    """A controller of Kafka's without a leader, which knows who has registered."""
    fields = {"registered_ids": (1, 2, 3), "epoch": 4, "kraft_version": 1, **more}
    return attrs.evolve(kafka(node_id, None), **fields)


def bare(node_id: int) -> Claim:
    """A controller of Kafka's that has no metadata."""
    return attrs.evolve(kafka(node_id, None), cluster_id=None, epoch=4, registered_ids=None, lacks_metadata=True)


def of_broker(*bootstrap: str) -> FoundHere:
    """The file of broker 10, on this machine, with these bootstrap servers.  Nobody answers at its own address."""
    return FoundHere(10, "/10", is_down=True, bootstrap=bootstrap, is_controller=False)


def led(*health: ReplicaHealth, directory_id: UUID | None = None, **more: Any) -> LeaderReport:
    voters = tuple(VoterReport(node_id, one, directory_id) for node_id, one in enumerate(health, start=1))
    return LeaderReport(leader_id=1, epoch=5, high_watermark=10, voters=voters, **more)


def heard(report: LeaderReport, node_id: int, *, silent_ms: int) -> LeaderReport:
    """The same, with so much time since that voter's last Fetch."""
    voters = [attrs.evolve(one, silent_ms=silent_ms) if one.id == node_id else one for one in report.voters]
    return attrs.evolve(report, voters=tuple(voters))


NOW_MS = 1_700_000_000_000


def expires(node_id: int, days: int) -> Claim:
    return says(node_id, certificate_expires_ms=NOW_MS + days * DAY_MS)


ALL = (says(1), says(2), says(3))
