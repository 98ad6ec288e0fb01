"""What an embedded node imports: each package costs an application's start, and some change what it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys

import trio

from kraft_trio import VoterSet, first_voter, format_node, open_node, parse_config, random_uuid
from harness.ports import free_ports

[port] = free_ports(1)
settings = {
    "node.id": "1",
    "process.roles": "controller",
    "listeners": f"CONTROLLER://127.0.0.1:{port}",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
    "metadata.log.dir": sys.argv[1],
}


async def main():
    config = parse_config(settings).config
    format_node(config, cluster_id=random_uuid(), voters=VoterSet([first_voter(config)]))
    async with open_node(config) as node:
        await node.append([b"x"])
        assert node.metrics.exposition()

trio.run(main)
UNUSED = ["asyncio", "cattrs", "click", "cryptography", "httptools", "hypothesis", "kio", "prometheus_client"]
UNUSED += ["pyspark", "rich", "structlog", "kraft_trio.http", "kraft_trio.status"]
print([name for name in UNUSED if name in sys.modules])
"""


def test_a_node_that_runs_has_imported_nothing_for_others(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "node")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
