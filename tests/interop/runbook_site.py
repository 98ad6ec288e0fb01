"""Machines of an operator: Apache Kafka's controllers and a broker, started and stopped by the commands of a page.

Kafka's jars come without its scripts, so scripts of the same names and options run the classes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from harness.kafka import java, kafka_version
from harness.ports import free_ports
from harness.quorum import random_uuid
from harness.waiting import wait_until
from kraft_trio.storage.directory.meta_properties import META_PROPERTIES
from tests.interop.kafka_broker import create_topic
from tests.interop.runbook_page import KAFKA, KRAFT, Step

SECONDS: Final = 120.0
"""Limit for a step that takes some seconds on an idle machine."""
COMMAND_SECONDS: Final = 90.0
"""Limit for one command: Kafka's tools give up after a minute."""
CONTROLLERS: Final = (1, 2, 3)
WITNESS: Final = 3
BROKER: Final = 10
MOST_JVMS: Final = 4
TOO_MANY: Final = "JVMs run already"
NEWEST: Final = "from Kafka 4.4 on"
"""What the page says of a row that older versions do not know."""

TOOLS: Final[Mapping[str, str]] = {
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum.sh": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}

_RUNS: Final = """
runs() { [ -e "/proc/$1/stat" ] && ! grep -qs ') Z ' "/proc/$1/stat"; }
"""
"""Nobody may have waited for a process that has ended."""

_ROOM: Final = f"""{_RUNS}
running=0
for file in "$PIDS"/*.jvm; do [ -e "$file" ] && runs "$(cat "$file")" && running=$((running + 1)); done
[ $running -lt {MOST_JVMS} ] || {{ echo "$running {TOO_MANY}" >&2; exit 97; }}
"""

_START: Final = """
[ "$1" = -daemon ]
node=$(sed -n s/^node.id=//p "$2")
nohup {java} "$2" >> "$PIDS/$node.log" 2>&1 &
echo $! > "$PIDS/$node.jvm"
"""

# The operator waits, as the page says: Kafka's script does not.
_STOP: Final = f"""{_RUNS}
node=${{1#--node-id=}}
pid=$(cat "$PIDS/$node.jvm")
kill -TERM $pid
while runs $pid; do sleep 0.1; done
"""

_KRAFT: Final = """
if [ "$1 $2" = "server start" ]; then
    node=$(sed -n s/^node.id=//p "$4")
    echo $$ > "$PIDS/$node.pid"
    exec >> "$PIDS/$node.log" 2>&1
fi
exec {kraft} "$@"
"""


class Site:
    """The owner calls `stop`.  `static` means kraft.version 0.  With a witness, that is in the bootstrap lists, too."""

    def __init__(
        self,
        directory: Path,
        controllers: Sequence[int] = CONTROLLERS,
        *,
        static: bool = False,
        witness: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Format all but the witness.  `settings` are further ones of the controllers."""
        self.directory = directory
        self.cluster_id = random_uuid()
        self.controllers = controllers
        nodes = (*controllers, *((WITNESS,) if witness else ()))
        self.ports = dict(zip((*nodes, BROKER), free_ports(len(nodes) + 1), strict=True))
        self.static = static
        self._settings = settings or {}
        self._pids = directory / "pids"
        self._pids.mkdir()
        self._bin = directory / "bin"
        self._write_scripts()
        for node_id in self.ports:
            self.write_properties(node_id)
        self._format()

    def _write_scripts(self) -> None:
        self._bin.mkdir()
        scripts = {
            "kafka-server-start.sh": _ROOM + _START.format(java=_quoted(java("kafka.Kafka", heap="256m"))),
            "kafka-server-stop.sh": _STOP,
            "kraft": _KRAFT.format(kraft=Path(sys.executable).with_name("kraft")),
        }
        for name, main in TOOLS.items():
            scripts[name] = _ROOM + f'exec {_quoted(java(main, heap="128m"))} "$@"\n'
        for name, script in scripts.items():
            path = self._bin / name
            path.write_text(f"#!/usr/bin/env bash\nset -eu\n{script}")
            path.chmod(0o755)

    # Files

    def properties(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.properties"

    def folder(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}"

    def address(self, node_id: int) -> str:
        return f"127.0.0.1:{self.ports[node_id]}"

    def servers(self) -> str:
        return ",".join(self.address(node_id) for node_id in self.ports if node_id != BROKER)

    def write_properties(self, node_id: int, **settings: object) -> None:
        """Configure a node; a setting's underscores are dots."""
        is_broker = node_id == BROKER
        voters = ",".join(f"{voter}@{self.address(voter)}" for voter in self.controllers)
        own: dict[str, object] = {
            "process.roles": "broker" if is_broker else "controller",
            "node.id": node_id,
            "listeners": f"{'PLAINTEXT' if is_broker else 'CONTROLLER'}://{self.address(node_id)}",
            "controller.listener.names": "CONTROLLER",
            **({"controller.quorum.voters": voters} if self.static else {}),
            **({} if self.static else {"controller.quorum.bootstrap.servers": self.servers()}),
            "log.dirs": self.folder(node_id),
            **({"offsets.topic.replication.factor": 1} if is_broker else {"metadata.log.dir": self.folder(node_id)}),
            **(self._settings if node_id in self.controllers else {}),
            **({"kraft.witness": "true"} if node_id == WITNESS and WITNESS not in self.controllers else {}),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self.properties(node_id).write_text("".join(f"{key}={value}\n" for key, value in own.items()))

    def _format(self) -> None:
        """The controllers, all of them voters, and the broker: one with Kafka's tool, the others as its copies."""
        first, *others = self.controllers
        ids = {node_id: random_uuid() for node_id in self.controllers}
        initial = ",".join(f"{id}@{self.address(id)}:{ids[id]}" for id in self.controllers)
        how = "" if self.static else f"--initial-controllers {initial}"
        self.sh(f"kafka-storage.sh format -t {self.cluster_id} -c {self.properties(first)} {how}")
        for node_id in others:
            self._copy_directory(first, node_id, ids[node_id])
        self._copy_directory(first, BROKER, random_uuid())
        shutil.rmtree(self.folder(BROKER) / "__cluster_metadata-0", ignore_errors=True)

    def _copy_directory(self, node_id: int, copy_id: int, directory_id: str) -> None:
        shutil.copytree(self.folder(node_id), self.folder(copy_id))
        path = self.folder(copy_id) / META_PROPERTIES
        text = re.sub(r"^node\.id=.*$", f"node.id={copy_id}", path.read_text(), flags=re.MULTILINE)
        path.write_text(re.sub(r"^directory\.id=.*$", f"directory.id={directory_id}", text, flags=re.MULTILINE))

    def directory_id(self, node_id: int) -> str:
        text = (self.folder(node_id) / META_PROPERTIES).read_text()
        [found] = re.findall(r"^directory\.id=(\S+)$", text, re.MULTILINE)
        return str(found)

    # Commands

    def variables(self, node_id: int) -> dict[str, str]:
        """What the page's variables are on a node's machine."""
        return {
            "SERVERS": self.servers(),
            "FILE": str(self.properties(node_id)),
            "DIR": str(self.folder(node_id)),
            "NODE": str(node_id),
            "CLUSTER": self.cluster_id,
        }

    def sh(self, command: str, *, may_fail: bool = False, **variables: str) -> str:
        """Run a command in a shell; returns what it prints.  Raises AssertionError with that if it fails."""
        path = f"{self._bin}:{os.environ['PATH']}"
        said = self.directory / "said.txt"
        with said.open("wb") as file:  # A pipe would stay open as long as a process in the background.
            done = subprocess.run(
                ["bash", "-euc", command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=self.directory,
                env={**os.environ, "PATH": path, "PIDS": str(self._pids), **variables},
                timeout=COMMAND_SECONDS,
                check=False,
            )
        text = said.read_text(errors="replace")
        print(f"$ {command}\n{text}")
        assert done.returncode == 0 or may_fail, f"{command}: exit code {done.returncode}\n{text}"
        return text

    def play(
        self, steps: Sequence[Step], column: str, node_id: int, by_hand: Mapping[str, Callable[[], object]], **more: str
    ) -> str:
        """Run a column's commands on that node's machine, word for word; returns all that they printed.

        What only reads is run in both columns, ours first: Kafka's tools wait a minute for a leader.  `by_hand` does
        what the page asks for before a row, or instead of a command, by the beginning of the row.  `more` are the
        variables that the reader finds out.
        """
        said = ""
        left = dict(by_hand)
        for step in steps:
            found = [beginning for beginning in left if step.what.startswith(beginning)]
            for beginning in found:
                left.pop(beginning)()
            if NEWEST in step.what and kafka_version() < (4, 4):
                continue
            assert found or step.commands, f"by hand: {step.what}"
            both = [*dict.fromkeys(step.commands[name] for name in (KRAFT, KAFKA) if name in step.commands)]
            for command in both if step.is_look or step.is_check else [step.commands.get(column)]:
                if command is not None:
                    said += self._take(command, step.is_look, {**self.variables(node_id), **more})
        assert not left, f"no such rows: {left}"
        return said

    def _take(self, command: str, may_fail: bool, variables: Mapping[str, str]) -> str:
        """Like an operator, repeat a command that fails, because another node may still be starting."""
        if may_fail:
            return self.sh(command, may_fail=True, **variables)
        failures = [""]

        def done() -> list[str]:
            try:
                return [self.sh(command, **variables)]
            except AssertionError as failure:
                failures.append(str(failure))
                if TOO_MANY in failures[-1]:
                    raise
                return []

        [said] = wait_until(command, done, SECONDS, interval_seconds=1)
        return said

    # Processes

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.sh("kafka-server-start.sh -daemon $FILE", **self.variables(node_id))

    def process_id(self, node_id: int) -> int | None:
        """Of the node's process, if it runs."""
        for path in self._pids.glob(f"{node_id}.[jp]*"):
            pid = int(path.read_text())
            status = Path(f"/proc/{pid}/stat")
            if status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
                return pid
        return None

    def end(self, *node_ids: int, how: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal, and wait for the end."""
        for node_id in node_ids:
            if (pid := self.process_id(node_id)) is not None:
                os.kill(pid, how)
                self.until_ended(node_id)

    def until_ended(self, node_id: int) -> None:
        wait_until(f"node {node_id} has ended", lambda: self.process_id(node_id) is None, SECONDS)

    def stop(self) -> None:
        self.end(*self.ports)

    def said(self, node_id: int) -> str:
        path = self._pids / f"{node_id}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # What the broker's clients see

    def create_topic(self, name: str) -> None:
        create_topic(self.address(BROKER), name, SECONDS)

    def until_listed(self, topics: set[str]) -> None:
        """Wait until the broker has heard of all these topics, which the controllers have acknowledged."""
        wait_until(f"{topics} are listed", lambda: self.listed_topics() >= topics, SECONDS, interval_seconds=0.3)

    def listed_topics(self) -> set[str]:
        admin = AdminClient({"bootstrap.servers": self.address(BROKER), "log_level": 0})
        return set(admin.list_topics(timeout=30).topics)


def _quoted(command: Sequence[str]) -> str:
    return " ".join(f"'{part}'" for part in command)
