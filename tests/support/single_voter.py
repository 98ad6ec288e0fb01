"""The configuration of a formatted quorum of one node on this machine, for tests with a real event loop."""

from __future__ import annotations

from pathlib import Path

from harness.ports import free_ports
from kraft_trio import NodeConfig, VoterSet, first_voter, format_node, random_uuid


def single_voter(directory: Path) -> NodeConfig:
    [port] = free_ports(1)
    config = NodeConfig.from_mapping(
        {
            "node.id": 1,
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
            "metadata.log.dir": str(directory / "node"),
        }
    )
    format_node(config, random_uuid(), VoterSet([first_voter(config)]))
    return config
