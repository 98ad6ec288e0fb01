"""Kafka's tools and ours say the same of each other's nodes and files, field by field."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.command import kraft
from harness.kafka import java, kafka_version
from harness.quorum import TOPIC, Quorum
from harness.raw_connection import RawConnection
from harness.waiting import wait_until
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from tests.interop.kafka_controllers import Controllers
from tests.interop.kafka_tools import TOOL_SECONDS, tool
from tests.interop.mixed_quorum import SECONDS

pytestmark = pytest.mark.nightly

OF_ANY_TIME = frozenset({"MaxFollowerLag", "MaxFollowerLagTimeMs", "Lag"})
OWN_KEYS = 10_000
"""The first key of the APIs that Kafka does not have."""
GROWING: Mapping[str, int] = {
    "HighWatermark": 0,
    "LogEndOffset": 0,
    "LastFetchTimestamp": 50,
    "LastCaughtUpTimestamp": 50,
}
"""How far a later answer may fall back.

A leader measures how long ago a fetch was, and subtracts that from the time of day.  The two clocks are read one after
the other, so the time of one fetch is told a little differently in each answer.
"""


def of_status(text: str) -> dict[str, Any]:
    """Each field by its name; lists are JSON."""
    found = {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines() if line)}
    return {name: value if not value.startswith("[") else json.loads(value) for name, value in found.items()}


def of_table(text: str) -> dict[str, Any]:
    """Each cell by the replica's id and the column."""
    titles, *rows = (line.split() for line in text.splitlines() if line)
    assert titles[0] == "NodeId"
    assert all(len(row) == len(titles) for row in rows), text
    return {f"{row[0]} {title}": cell for row in rows for title, cell in zip(titles, row, strict=True)}


LAYOUTS: Mapping[str, Callable[[str], dict[str, Any]]] = {"--status": of_status, "--replication": of_table}


def compare_descriptions(server: str, option: str) -> None:
    """Ours is asked between two answers of Kafka's tool."""

    def kafkas() -> dict[str, Any]:
        done = tool("MetadataQuorumCommand", "--bootstrap-controller", server, "describe", option)
        assert done.returncode == 0, done.stderr
        return LAYOUTS[option](done.stdout)

    before = kafkas()
    done = kraft("metadata-quorum", "--bootstrap-controller", server, "describe", option)
    assert done.returncode == 0, done.stderr
    ours, after = LAYOUTS[option](done.stdout), kafkas()
    assert list(before) == list(ours) == list(after), "the same fields in the same order"
    for name, value in ours.items():
        field = name.split()[-1]
        if field in GROWING:
            slack = GROWING[field]
            assert int(before[name]) - slack <= int(value) <= int(after[name]) + slack, name
        elif field in OF_ANY_TIME:
            assert int(value) >= 0, name
        elif field == "CurrentObservers":
            # Kafka's leader tells no endpoints of observers; ours finds them in DescribeCluster.
            assert [{key: mine[key] for key in told} for mine, told in zip(value, after[name], strict=True)] == after[
                name
            ]
        else:
            assert before[name] == value == after[name], name


@pytest.mark.parametrize("option", LAYOUTS)
def test_our_quorum_is_described(make_quorum: Any, option: str) -> None:
    quorum: Quorum = make_quorum(3, 1, is_steady=True)
    quorum.start()
    quorum.produce(["one", "two"])
    quorum.wait_until_caught_up()
    compare_descriptions(str(quorum.leader().endpoint), option)


@pytest.mark.parametrize("option", LAYOUTS)
def test_kafkas_quorum_is_described(controllers: Controllers, option: str) -> None:
    wait_until("Kafka's second controller observes", lambda: controllers.replicas(2) == ([1], [2]), SECONDS)
    compare_descriptions(f"127.0.0.1:{controllers.ports[1]}", option)


def run(main: str, *arguments: str) -> str:
    command = java(main, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def of_info(text: str) -> tuple[str, set[str]]:
    """The directory, and what is in its meta.properties."""
    directory = re.search(r"Found log directory:\n +(\S+)\n", text)
    metadata = re.search(r"Found metadata: \{(.*)\}", text)
    assert directory is not None, text
    assert metadata is not None, text
    return directory[1], set(metadata[1].split(", "))


def of_dump(text: str) -> list[dict[str, str]]:
    """The fields of each batch; ours has no deleteHorizonMs, which the metadata's log never has."""
    lines = [line for line in text.splitlines() if line.startswith("baseOffset: ")]
    found = [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines]
    assert {batch.pop("deleteHorizonMs") for batch in found} == {"OptionalLong.empty"}
    return found


def compare_files(properties: Path, partition: Path) -> None:
    """Of a stopped node."""
    ours = kraft("storage", "info", "-c", str(properties))
    assert ours.returncode == 0, ours.stdout + ours.stderr
    assert of_info(ours.stdout) == of_info(run("kafka.tools.StorageTool", "info", "-c", str(properties)))
    for path in sorted(partition.glob("*.log")):
        dumped = kraft("dump-log", "--json", "--skip-records", str(path))
        assert dumped.returncode == 0, dumped.stderr
        kafkas = of_dump(run("kafka.tools.DumpLogSegments", "--files", str(path)))
        batches = [json.loads(line) for line in dumped.stdout.splitlines()]
        assert batches
        shown = [{name: as_kafka_writes(batch[name]) for name in kafkas[0]} for batch in batches]
        assert shown == kafkas


def as_kafka_writes(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_our_directory_is_described(make_quorum: Any) -> None:
    quorum: Quorum = make_quorum(1)
    node = quorum.nodes[1]
    with node.properties.open("a") as file:
        file.write(f"log.dirs={node.directory}\n")
    quorum.start()
    quorum.produce(["one", "two"])
    node.stop()
    compare_files(node.properties, node.partition_directory)


@pytest.mark.parametrize("controllers", [(1,)], indirect=True)
def test_kafkas_directory_is_described(controllers: Controllers) -> None:
    wait_until("Kafka's controller leads", lambda: controllers.replicas(1) == ([1], []), SECONDS)
    controllers.stop()
    compare_files(controllers.properties(1), controllers.partition(1))


def of_endpoints(text: str) -> list[dict[str, str]]:
    titles, *rows = (line.split() for line in text.splitlines() if line)
    return [dict(zip(titles, row, strict=True)) for row in rows]


@pytest.mark.skipif(kafka_version() < (4, 0), reason="kafka-cluster lists endpoints from 4.0 on")
def test_endpoints_and_versions_are_told(make_quorum: Any) -> None:
    quorum: Quorum = make_quorum(3, is_steady=True)
    quorum.start()
    quorum.produce(["one"])
    node = quorum.leader()
    server = str(node.endpoint)
    listed = tool("ClusterTool", "list-endpoints", "--bootstrap-controller", server)
    told = {(line["ID"], f"{line['HOST']}:{line['PORT']}") for line in of_endpoints(listed.stdout)}
    assert told == {(str(node_id), str(node.endpoint)) for node_id, node in quorum.nodes.items()}, listed.stderr

    said = tool("BrokerApiVersionsCommand", "--bootstrap-server", server).stdout
    kafkas = {
        (int(key), int(low), int(high or low))
        for key, low, high in re.findall(r"\((\d+)\): (\d+)(?: to (\d+))? \[usable", section_of(said, node.id))
    }
    with RawConnection(node.endpoint) as connection:
        answer = connection.request(API_VERSIONS, ApiVersionsRequest("test", "1"))
    ours = {(api.key, api.min_version, api.max_version) for api in answer.apis}
    assert kafkas
    assert kafkas <= ours, "what Kafka can use at most"
    assert {key for key, _, _ in ours if key < OWN_KEYS} == {key for key, _, _ in kafkas}


def section_of(text: str, node_id: int) -> str:
    """What the tool says of one node."""
    [found] = [part for part in text.split("\n)") if f"(id: {node_id} " in part]
    return found


def test_latency_is_measured_from_end_to_end(make_quorum: Any) -> None:
    """The topic is there, and its only partition is assigned."""
    quorum: Quorum = make_quorum(1)
    quorum.start()
    quorum.leader()
    server = str(quorum.nodes[1].endpoint)
    measured = tool("EndToEndLatency", server, TOPIC, "20", "all", "50")
    assert "Percentiles: 50th = " in measured.stdout, measured.stdout + measured.stderr
    told = tool("GetOffsetShell", "--bootstrap-server", server, "--topic", TOPIC)
    # Before them, the control records of the epoch.
    assert int(told.stdout.rpartition(":")[2]) >= 20
