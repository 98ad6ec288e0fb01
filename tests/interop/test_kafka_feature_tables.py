"""`version-mapping` and `feature-dependencies` print what Kafka's tool prints."""

from __future__ import annotations

import subprocess

import pytest

from harness.command import kraft
from harness.kafka import java, kafka_version
from tests.interop.kafka_tools import TOOL_SECONDS

NEWEST = (4, 4)
"""The release whose table ours is.  Before, kraft.version=1 depended on metadata.version=21, and levels were fewer."""


def kafkas(*arguments: str) -> str:
    command = java("kafka.tools.StorageTool", *arguments, heap="96m")
    return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=True).stdout


@pytest.mark.parametrize("release", ["3.3-IV3", "3.9", "4.0", "4.1-IV0", None])
def test_version_mapping(release: str | None) -> None:
    if release is None and kafka_version()[:2] != NEWEST:
        pytest.skip("the newest release is that of Kafka 4.4")
    arguments = ["version-mapping", *(() if release is None else ("--release-version", release))]
    for group in ("storage", "features"):
        assert kraft(group, *arguments).stdout == kafkas(*arguments)


def test_feature_dependencies() -> None:
    if kafka_version()[:2] != NEWEST:
        pytest.skip("the dependencies are those of Kafka 4.4")
    named = (
        "kraft.version=1",
        "transaction.version=2",
        "eligible.leader.replicas.version=1",
        "metadata.version=30",
        "share.version=2",
    )
    arguments = ["feature-dependencies", *(part for feature in named for part in ("--feature", feature))]
    assert kraft("features", *arguments).stdout == kafkas(*arguments)
