"""`kraft dump-log --metadata` shows the metadata records of a Kafka cluster as Kafka's own tool does."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.command import kraft
from harness.kafka import java
from harness.waiting import wait_until
from kraft_trio.wire.metadata_frame import kafkas_name
from kraft_trio.wire.metadata_schemas import SCHEMAS
from kraft_trio.wire.schema import Field, Structure
from tests.interop.kafka_broker import Broker
from tests.interop.kafka_controllers import JVM_SECONDS, Controllers
from tests.interop.kafka_schemas import includes, schemas_in
from tests.interop.kafka_tools import tool

DUMPED_TYPES = {
    *("REGISTER_BROKER_RECORD", "REGISTER_CONTROLLER_RECORD", "FEATURE_LEVEL_RECORD", "TOPIC_RECORD"),
    *("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "CONFIG_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD"),
    *("REMOVE_TOPIC_RECORD", "CLIENT_QUOTA_RECORD", "USER_SCRAM_CREDENTIAL_RECORD", "NO_OP_RECORD"),
    *("BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD"),
}
"""Some that a small cluster writes."""


def kafkas_schemas() -> dict[int, dict[str, Any]]:
    """By API key, from the jar of this version."""
    return {schema["apiKey"]: schema for schema in schemas_in("kafka-metadata", "common/metadata/")}


def kafkas_fields(fields: list[dict[str, Any]], version: int) -> Mapping[str, object]:
    """What a version of a structure has: by name, the type, whether it may be null, the tag, and the inner fields."""
    return {
        field["name"][0].lower() + field["name"][1:]: (
            field["type"] if "fields" not in field else "structures",
            includes(field.get("nullableVersions", "none"), version),
            int(field["tag"]) if "tag" in field else None,
            kafkas_fields(field["fields"], version) if "fields" in field else None,
        )
        for field in fields
        if includes(field["versions"], version)
    }


def our_fields(structure: Structure) -> Mapping[str, object]:
    def of(field: Field) -> object:
        kind = "structures" if field.structure is not None else "[]" * field.is_array + field.kind
        return kind, field.nullable, field.tag, our_fields(field.structure) if field.structure is not None else None

    return {kafkas_name(field.name): of(field) for field in structure.all_fields}


def test_our_schemas_are_those_of_kafka() -> None:
    schemas = kafkas_schemas()
    assert set(schemas) <= set(SCHEMAS)
    for key, schema in schemas.items():
        first, _, last = schema["validVersions"].partition("-")
        assert SCHEMAS[key].name == schema["name"]
        assert SCHEMAS[key].max_version >= int(last or first)
        for version in range(int(first), int(last or first) + 1):
            ours = our_fields(SCHEMAS[key].structure(version))
            assert ours == kafkas_fields(schema["fields"], version), f"{schema['name']}, version {version}"
            in_order = [name for name, field in ours.items() if field[2] is None]  # type: ignore[index]
            kafkas = kafkas_fields(schema["fields"], version)
            assert in_order == [name for name, field in kafkas.items() if field[2] is None]  # type: ignore[index]


@pytest.fixture
def broker(controllers: Controllers, tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, controllers)
    yield made
    made.stop()


def kafkas_dumps(paths: list[Path]) -> dict[Path, list[tuple[int, dict[str, Any]]]]:
    """One process reads all files, and begins each with a line that names it."""
    arguments = ["--cluster-metadata-decoder", "--files", ",".join(map(str, paths))]
    done = subprocess.run(
        java("kafka.tools.DumpLogSegments", *arguments), capture_output=True, text=True, timeout=JVM_SECONDS, check=True
    )
    parts = re.split(r"^Dumping (.*)$", done.stdout, flags=re.MULTILINE)
    return {Path(name): records_in(part) for name, part in zip(parts[1::2], parts[2::2], strict=True)}


def records_in(printed: str) -> list[tuple[int, dict[str, Any]]]:
    found = re.findall(r"^\| offset: (\d+) .*? payload: (\{.*\})$", printed, flags=re.MULTILINE)
    return [(int(offset), json.loads(payload)) for offset, payload in found]


def our_dump(path: Path) -> list[tuple[int, dict[str, Any]]]:
    done = kraft("dump-log", "--metadata", "--json", str(path))
    assert done.returncode == 0, done.stderr
    records = [record for line in done.stdout.splitlines() for record in json.loads(line)["records"]]
    return [(record["offset"], record["metadata"]) for record in records if "metadata" in record]


@pytest.mark.nightly
@pytest.mark.parametrize("controllers", [(1,)], indirect=True)
def test_a_dump_has_what_kafkas_tool_prints(controllers: Controllers, broker: Broker, tmp_path: Path) -> None:
    asked = ["--bootstrap-server", broker.endpoint]

    def run(name: str, *arguments: str) -> None:
        done = tool(name, *asked, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def is_created() -> bool:
        topic = ["--topic", "orders", "--partitions", "3", "--config", "retention.ms=1000"]
        return tool("TopicCommand", *asked, "--create", "--if-not-exists", *topic).returncode == 0

    wait_until("the broker creates a topic", is_created, JVM_SECONDS)
    run("TopicCommand", "--create", "--topic", "removed")
    run("TopicCommand", "--delete", "--topic", "removed")
    users = ["--entity-type", "users", "--entity-name", "alice"]
    for config in ("request_percentage=50.5", "SCRAM-SHA-256=[iterations=8192,password=pencil]"):
        run("ConfigCommand", "--alter", "--add-config", config, *users)
    broker.stop()
    wait_until("the controller takes a snapshot", lambda: controllers.checkpoints(1), JVM_SECONDS)
    controllers.stop()

    partition = tmp_path / "controller-1" / "__cluster_metadata-0"
    seen = set()
    paths = sorted([*partition.glob("*.log"), *partition.glob("*.checkpoint")])
    dumps = kafkas_dumps(paths)
    assert sorted(dumps) == paths
    for path, kafkas in dumps.items():
        assert our_dump(path) == kafkas, path.name
        seen |= {record["type"] for _, record in kafkas}
    assert seen >= DUMPED_TYPES, DUMPED_TYPES - seen
