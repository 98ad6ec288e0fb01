"""Apache Kafka's command-line tools."""

from __future__ import annotations

import subprocess

from harness.kafka import java

TOOL_SECONDS = 90
"""A JVM starts for each command, perhaps on a busy machine."""


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = java(f"org.apache.kafka.tools.{name}", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
