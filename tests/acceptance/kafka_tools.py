"""Apache Kafka's command-line tools and Java clients, of the Kafka that KAFKA_HOME names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.ports import free_ports
from harness.quorum import Quorum

LIBRARIES = Path(os.environ.get("KAFKA_HOME", "/nowhere")) / "libs"
TOOL_SECONDS = 90
"""A JVM starts for each command, perhaps on a busy machine."""

needs_tools = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed"),
    pytest.mark.skipif(not any(LIBRARIES.glob("kafka-tools-*.jar")), reason="KAFKA_HOME names no Kafka"),
]


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["java", "-cp", f"{LIBRARIES}/*", f"org.apache.kafka.tools.{name}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)


def add_client_listeners(quorum: Quorum) -> dict[int, str]:
    """Give each node a listener for clients before it starts; the addresses by node id."""
    clients = {}
    for node, port in zip(quorum.nodes.values(), free_ports(len(quorum.nodes)), strict=True):
        controller = f"listeners=CONTROLLER://{node.endpoint}"
        clients[node.id] = f"127.0.0.1:{port}"
        text = node.properties.read_text()
        assert controller in text
        node.properties.write_text(text.replace(controller, f"{controller},CLIENT://{clients[node.id]}"))
    return clients
