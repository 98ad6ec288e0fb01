"""Three etcd members on loopback with their defaults (fsync on)."""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import trio

from benchmarks.children import Child, poll_until, start_child, stopping
from harness.etcd import etcd_program, etcd_version
from harness.ports import free_ports

LEADER_SECONDS = 30.0
QUOTA_BYTES = 8 << 30


def why_unavailable() -> str | None:
    """Why etcd cannot be measured on this machine, in one line; None when it can."""
    if etcd_program() is None:
        return "there is no etcd (scripts/get-etcd)"
    try:
        import grpc  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return "grpcio is not installed (pip install -r benchmarks/requirements.txt)"
    return None


async def version() -> str:
    return await trio.to_thread.run_sync(etcd_version, _program())


def _program() -> Path:
    program = etcd_program()
    assert program is not None, "why_unavailable tells"
    return program


@attrs.define
class EtcdCluster:
    """A running cluster; made by `started`."""

    directory: Path
    client_ports: dict[int, int]
    peer_ports: dict[int, int]
    data: Mapping[int, Path]
    """Where members have their data that have it elsewhere."""
    children: dict[int, Child] = attrs.field(factory=dict)

    @classmethod
    @asynccontextmanager
    async def started(
        cls, directory: Path, members: int = 3, data: Mapping[int, Path] = MappingProxyType({})
    ) -> AsyncIterator[EtcdCluster]:
        """A fresh cluster with a leader, its data in `data`, by member, or below `directory`; stopped on exit."""
        await trio.Path(directory).mkdir(parents=True)
        ports = free_ports(2 * members)
        ids = range(1, members + 1)
        client_ports, peer_ports = dict(zip(ids, ports, strict=False)), dict(zip(ids, ports[members:], strict=True))
        cluster = cls(directory, client_ports, peer_ports, data)
        async with stopping(cluster.children):
            for member in ids:
                await cluster.start(member)
            await cluster.leader()
            yield cluster

    async def start(self, member: int) -> None:
        """Start one member, new or again."""
        client_url = f"http://127.0.0.1:{self.client_ports[member]}"
        peer_url = f"http://127.0.0.1:{self.peer_ports[member]}"
        peers = ",".join(f"m{other}=http://127.0.0.1:{port}" for other, port in self.peer_ports.items())
        data = self.data.get(member, self.directory / f"m{member}")
        command = [
            *(str(_program()), "--name", f"m{member}", "--data-dir", str(data)),
            *("--listen-client-urls", client_url, "--advertise-client-urls", client_url),
            *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
            *("--initial-cluster", peers, "--initial-cluster-state", "new"),
            *("--quota-backend-bytes", str(QUOTA_BYTES), "--logger", "zap", "--log-level", "warn"),
        ]
        self.children[member] = await start_child(f"etcd m{member}", command, self.directory / f"m{member}.out")

    async def leader(self) -> int:
        """The member that says of itself that it leads.  Raises BenchmarkError if there is none for LEADER_SECONDS."""
        return await poll_until("etcd leader", LEADER_SECONDS, self._ask_for_leader)

    async def all_caught_up(self) -> None:
        """Wait until every member runs and has the leader's raft index."""
        await poll_until("etcd cluster in step", LEADER_SECONDS, self._ask_whether_caught_up)

    @property
    def node_ids(self) -> list[int]:
        return list(self.children)

    @property
    def pids(self) -> dict[int, int]:
        return {member: child.pid for member, child in self.children.items()}

    async def kill(self, member: int) -> None:
        await self.children[member].kill()

    def endpoint(self, member: int) -> str:
        return f"127.0.0.1:{self.client_ports[member]}"

    async def _ask_for_leader(self) -> int | None:
        for member, child in self.children.items():
            if child.running and (status := await self._status(member)) is not None:
                if status["leader"] == status["header"]["member_id"]:
                    return member
            elif not child.running and child.process.returncode != -9:
                child.check_running()
        return None

    async def _ask_whether_caught_up(self) -> bool | None:
        statuses = [await self._status(member) for member in self.children]
        indexes = {status and status.get("raftIndex") for status in statuses}
        return True if len(indexes) == 1 and None not in indexes else None

    async def _status(self, member: int) -> dict[str, Any] | None:
        """The member's status from its JSON gateway; None while it does not answer or knows no leader."""

        def ask() -> dict[str, Any] | None:
            connection = http.client.HTTPConnection("127.0.0.1", self.client_ports[member], timeout=2)
            try:
                connection.request("POST", "/v3/maintenance/status", body=b"{}")
                status = json.loads(connection.getresponse().read())
            except (OSError, http.client.HTTPException, ValueError):
                return None
            finally:
                connection.close()
            return status if "leader" in status else None

        return await trio.to_thread.run_sync(ask)
