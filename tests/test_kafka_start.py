"""A node does not start with the file or on the directory of a controller or broker of Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from harness.ports import free_ports
from kraft_trio import ConfigError, NodeConfig, VoterSet, first_voter, format_node, open_node, random_uuid
from tests.storage.test_kafka_directory import NO_OP, snapshot

# The keys of config/controller.properties, as Kafka 4.4 ships it, that kraft-trio does not have.
SHIPPED = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.dirs": "/tmp/kraft-controller-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
}


def properties(tmp_path: Path, **more: str) -> dict[str, str]:
    [port] = free_ports(1)
    return {
        "node.id": "1",
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
        "metadata.log.dir": str(tmp_path / "node"),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def formatted(keys: dict[str, str]) -> NodeConfig:
    config = NodeConfig.from_mapping(keys)
    format_node(config, random_uuid(), VoterSet([first_voter(config)]))
    return config


def content(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def started(config: NodeConfig) -> None:
    async with open_node(config):
        pass


async def appended(config: NodeConfig, value: bytes) -> None:
    with trio.fail_after(60):
        async with open_node(config) as node:
            await node.append([value])


@pytest.fixture
def kafkas(tmp_path: Path) -> dict[str, str]:
    """The keys of a node whose log has a metadata record."""
    keys = properties(tmp_path)
    trio.run(appended, formatted(keys), NO_OP)
    return keys


@pytest.mark.parametrize("role", ["controller", "broker,controller"])
def test_directory_with_metadata_records_is_refused_and_stays(kafkas: dict[str, str], role: str) -> None:
    directory = Path(kafkas["metadata.log.dir"])
    before = content(directory)
    with pytest.raises(ConfigError, match=r"\.log: a metadata record of Apache Kafka's, NO_OP_RECORD at 3, so the dir"):
        trio.run(
            appended, NodeConfig.from_mapping({**kafkas, "process.roles": role, "kraft.metrics.interval.ms": "0"}), b"x"
        )
    assert content(directory) == before


@pytest.mark.parametrize("key", ["kraft.unsafe.kafka.directory", "kraft.witness"])
def test_start_is_not_refused_when_the_operator_means_it(kafkas: dict[str, str], key: str) -> None:
    trio.run(started, NodeConfig.from_mapping({**kafkas, key: "true"}))


def test_other_topic_is_not_refused_for_metadata_records(tmp_path: Path) -> None:
    config = formatted(properties(tmp_path, kraft_topic_name="orders"))
    trio.run(appended, config, NO_OP)
    trio.run(appended, config, NO_OP)


def test_directory_is_refused_before_it_gets_a_directory_id(kafkas: dict[str, str]) -> None:
    """Kafka 3.6 formatted directories without one."""
    meta_properties = Path(kafkas["metadata.log.dir"]) / "meta.properties"
    lines = meta_properties.read_text().splitlines(keepends=True)
    without = "".join(line for line in lines if not line.startswith("directory.id"))
    meta_properties.write_text(without)
    with pytest.raises(ConfigError, match="metadata record"):
        trio.run(started, NodeConfig.from_mapping(kafkas))
    assert meta_properties.read_text() == without


@pytest.mark.parametrize("role", ["controller", "broker"])
def test_directory_that_kafka_formatted_is_refused(tmp_path: Path, role: str) -> None:
    keys = properties(tmp_path)
    formatted(keys)
    (tmp_path / "node" / "bootstrap.checkpoint").write_bytes(snapshot(NO_OP))
    with pytest.raises(ConfigError, match=r"bootstrap\.checkpoint: a file of Apache Kafka's, so the directory is that"):
        trio.run(started, NodeConfig.from_mapping({**keys, "process.roles": role}))


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (
            SHIPPED,
            "num.partitions, num.recovery.threads.per.data.dir, offsets.topic.replication.factor and 3 more: the",
        ),
        ({"process.roles": "broker,controller"}, "process.roles: the file is that of a controller or broker"),
        ({"min.insync.replicas": "2"}, "min.insync.replicas: the file is that of a controller or broker"),
    ],
)
def test_file_of_kafka_is_refused(tmp_path: Path, more: dict[str, str], named: str) -> None:
    keys = {**properties(tmp_path), **more}
    formatted(keys)
    before = content(tmp_path / "node")
    file = tmp_path / "controller.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    with pytest.raises(ConfigError) as refused:
        trio.run(started, NodeConfig.from_file(file))
    assert str(refused.value).startswith(named)
    assert str(refused.value).endswith("or kraft.witness=true, or kraft.unsafe.kafka.directory=true")
    assert content(tmp_path / "node") == before


@pytest.mark.parametrize(
    "more",
    [
        {"num.network.threads": "3", "socket.send.buffer.bytes": "102400"},  # tune any server
        {**SHIPPED, "kraft.metrics.interval.ms": "0"},  # written for kraft-trio
        {"process.roles": "broker,controller", "kraft.topic.name": "orders"},
    ],
)
def test_file_for_kraft_trio_is_not_refused_for_keys_of_kafka(tmp_path: Path, more: dict[str, str]) -> None:
    trio.run(appended, formatted({**properties(tmp_path), **more}), b"x")
