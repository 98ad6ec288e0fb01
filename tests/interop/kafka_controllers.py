"""A quorum of Apache Kafka's own controllers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.command import kraft
from harness.kafka import java
from harness.ports import free_ports
from harness.quorum import random_uuid

JVM_SECONDS = 90


class Controllers:
    """Controllers of Kafka's: by default, 1 is the only voter, and the others observe."""

    def __init__(
        self,
        directory: Path,
        node_ids: Sequence[int] = (1, 2),
        release: str = "",
        voters: Sequence[int] = (1,),
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """`release` decides the metadata.version that they are formatted with, by default their own.  `settings` are
        further ones."""
        self.cluster_id = random_uuid()
        self.ports = dict(zip(node_ids, free_ports(len(node_ids)), strict=True))
        self._directory = directory
        self._release = ["--release-version", release] if release else []
        self._settings = settings or {}
        self._voters = voters
        self._founding = ["--standalone"]
        if len(voters) > 1:
            founders = (f"{id}@127.0.0.1:{self.ports[id]}:{random_uuid()}" for id in voters)
            self._founding = ["--initial-controllers", ",".join(founders)]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def properties(self, node_id: int) -> Path:
        return self._directory / f"controller-{node_id}.properties"

    def start(self) -> None:
        """Format and run them."""
        for node_id in self.ports:
            self.write_properties(node_id)
            self._format(node_id, *(self._founding if node_id in self._voters else ["--no-initial-controllers"]))
            self.run(node_id)

    def _format(self, node_id: int, *how: str) -> None:
        formatting = ["format", "-t", self.cluster_id, "-c", str(self.properties(node_id)), *how, *self._release]
        subprocess.run(
            java("kafka.tools.StorageTool", *formatting), check=True, capture_output=True, timeout=JVM_SECONDS
        )

    def replace_disk(self, node_id: int) -> None:
        """Kill a node, and run it again with a blank directory."""
        self.kill(node_id)
        shutil.rmtree(self._directory / f"controller-{node_id}")
        self._format(node_id, "--no-initial-controllers")
        self.run(node_id)

    def write_properties(self, node_id: int) -> None:
        """Configure the node for its port."""
        settings = {
            "process.roles": "controller",
            "node.id": node_id,
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.ports.values()),
            "metadata.log.dir": self._directory / f"controller-{node_id}",
            "log.dirs": self._directory / f"controller-{node_id}",
            # They write a record every half second.
            "metadata.log.max.record.bytes.between.snapshots": 2000,
            **self._settings,
        }
        self.properties(node_id).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def run(self, node_id: int) -> None:
        """Start a process, without waiting for it."""
        with (self._directory / f"controller-{node_id}.log").open("ab") as log:
            command = java("kafka.Kafka", str(self.properties(node_id)))
            self._processes[node_id] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory)

    def stop(self) -> None:
        """Kill all, none of them much later than the others."""
        for process in self._processes.values():
            process.kill()
        for node_id in list(self._processes):
            self.kill(node_id)

    def kill(self, node_id: int) -> None:
        process = self._processes.pop(node_id)
        process.kill()
        process.wait(JVM_SECONDS)

    def process_id(self, node_id: int) -> int:
        return self._processes[node_id].pid

    def log_end(self, node_id: int) -> tuple[int, int]:
        """Epoch and end offset (exclusive) of a stopped node's log, as `kraft storage recover` shows them."""
        shown = kraft("storage", "recover", "-c", str(self.properties(node_id)), "--unsafe-only-voter").stdout
        match = re.search(r"LogEnd: +offset (\d+) \(exclusive\), epoch (\d+)", shown)
        assert match is not None, shown
        return int(match[2]), int(match[1])

    def ask(self, asked: int, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return kraft(command, "--bootstrap-controller", f"127.0.0.1:{self.ports[asked]}", *arguments)

    def replicas(self, asked: int) -> tuple[list[int], list[int]] | None:
        """The ids of the voters and of the observers; None while nobody says.

        A controller that is starting tells its quorum before it tells its cluster.
        """
        described = self._status(asked)
        if described is None:
            return None
        kinds = (described[kind] for kind in ("currentVoters", "currentObservers"))
        voters, observers = (sorted(replica["id"] for replica in kind) for kind in kinds)
        return voters, observers

    def partition(self, node_id: int) -> Path:
        return self._directory / f"controller-{node_id}" / "__cluster_metadata-0"

    def leads_alone(self, node_id: int) -> bool:
        """Whether it is the only voter and leads, and the start of its epoch is committed.

        A leader that has been removed still answers for the voters that remain.  A new one knows no high watermark
        until it has committed a record of its own.
        """
        described = self._status(node_id)
        if described is None or described["leaderId"] != node_id or (described["highWatermark"] or -1) < 0:
            return False
        return [voter["id"] for voter in described["currentVoters"]] == [node_id]

    def leader(self, asked: int) -> int | None:
        """The leader of which that controller knows a high watermark; None while nobody says."""
        described = self._status(asked)
        if described is None or (described["highWatermark"] or -1) < 0 or described["leaderId"] < 0:
            return None
        found: int = described["leaderId"]
        return found

    def _status(self, asked: int) -> dict[str, Any] | None:
        completed = self.ask(asked, "metadata-quorum", "describe", "--status", "--json")
        if completed.returncode != 0:
            return None
        described: dict[str, Any] = json.loads(completed.stdout)
        if described["clusterId"] is None:
            return None
        assert described["clusterId"] == self.cluster_id
        return described

    def checkpoints(self, node_id: int) -> dict[str, bytes]:
        """Its snapshots but for the one that it was formatted with, by name."""
        found = self.partition(node_id).glob("*.checkpoint")
        return {path.name: path.read_bytes() for path in found if int(path.name[:20]) > 0}
