"""What each run of the interop tests has found, by system: docs/reference/kafka.md shows it.

`scripts/test --interop --record-interop` writes it to tests/interop/results.json.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pytest

from harness.kafka import kafka_version

RESULTS: Final = Path(__file__).parents[1] / "interop" / "results.json"

OPTION: Final = "--record-interop"

SYSTEMS: Final[Mapping[str, str]] = {
    "interop/test_kafka_clients.py": "Kafka's console, verifiable and performance clients",
    "interop/test_kafka_connect.py": "Kafka Connect and MirrorMaker",
    "interop/test_kafka_preallocated.py": "our segments that end in zeros, read by Kafka",
    "interop/test_kafka_cut_off.py": "our findings about Kafka's nodes that do not reach each other",
    "interop/test_kafka_dashboard.py": "our dashboard of Kafka's controllers",
    "interop/test_kafka_feature_tables.py": "kafka-storage's tables of features",
    "interop/test_kafka_followers.py": "our commands asked at Kafka's brokers and followers",
    "interop/test_kafka_health.py": "our findings about Kafka's controllers and a broker",
    "interop/test_kafka_leaderless.py": "our findings about Kafka's controllers without a leader",
    "interop/test_kafka_log_reader.py": "Kafka's log reader on simulated logs and snapshots",
    "interop/test_kafka_metadata_directories.py": "Kafka's image of its controllers' and brokers' directories",
    "interop/test_kafka_metadata_image.py": "Kafka's image after generated metadata records",
    "interop/test_kafka_metadata_records.py": "Kafka's controllers and a broker: their metadata records",
    "interop/test_kafka_mixed_cluster.py": "our observer of Kafka's controllers and a broker",
    "interop/test_kafka_mixed_disks.py": "snapshots and directories between TestRaftServer and our nodes",
    "interop/test_kafka_mixed_explained.py": "the simulator's controllers of Kafka beside real ones",
    "interop/test_kafka_mixed_membership.py": "voter changes among TestRaftServer, Kafka's controllers and our nodes",
    "interop/test_kafka_mixed_quorum.py": "TestRaftServer and our nodes in one quorum",
    "interop/test_kafka_mixed_tools.py": "Kafka's tools and ours on the same nodes and files",
    "interop/test_kafka_directory_locks.py": "our commands on directories of Kafka's controllers",
    "interop/test_kafka_moved_quorum.py": "our recovery of Kafka's controllers",
    "interop/test_kafka_observer.py": "TestRaftServer as observer and voter of our log",
    "interop/test_kafka_poison.py": "Kafka's log reader on batches that it cannot read",
    "interop/test_kafka_quorum.py": "our commands and snapshots of Kafka's controllers",
    "interop/test_kafka_quorum_state.py": "Kafka's reader of quorum-state",
    "interop/test_kafka_reassignment.py": "Kafka's Java Admin and kafka-reassign-partitions",
    "interop/test_kafka_runbook.py": "Kafka's controllers and a broker: each incident of the runbook",
    "interop/test_kafka_schemas.py": "Kafka's schemas of requests and responses",
    "interop/test_kafka_security.py": "Kafka's tools and controllers with TLS and SASL",
    "interop/test_kafka_snapshots.py": "Kafka's snapshot reader and writer",
    "interop/test_kafka_tools.py": "kafka-metadata-quorum and kafka-features",
    "interop/test_kafka_traces.py": "the logs of Kafka's controllers as a behaviour of the specification",
    "interop/test_kafka_witness.py": "Kafka's controllers and a witness",
    "spark/live/test_kafka_connector.py": "Spark's Kafka connector",
    "spark/live/test_kafka_source.py": "our Spark source of Kafka's controllers",
    "acceptance/test_access_matrix.py": "Kafka's Java Admin without rights",
}
"""By file.  The marker `system` names that of one test, and the program whose version counts."""

_OF_SPARK: Final = "spark/live/test_kafka_connector.py"

_SYSTEM, _VERSION, _SAYS = "interop system", "interop version", "interop says"


def kcat_version() -> str:
    """The version of kcat; empty if it is not installed."""
    path = shutil.which("kcat") or shutil.which("kafkacat")
    if path is None:
        return ""
    said = subprocess.run([path, "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version (\S+) .*?librdkafka (\S+)", said)
    return "unknown" if found is None else f"{found[1]}, librdkafka {found[2]}"


@functools.cache
def version_of(program: str) -> str:
    """The version of a program here; empty if it is not installed."""
    match program:
        case "kcat":
            return kcat_version()
        case "confluent-kafka":
            import confluent_kafka

            return f"{confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"
        case "kafka-python" | "pyspark":
            return metadata.version(program)
        case _:
            return ".".join(map(str, kafka_version()))


def mark(item: pytest.Item) -> None:
    """Note at the test which system it belongs to, if it has other people's programs."""
    tests = Path(__file__).parents[1]
    file = item.path.relative_to(tests).as_posix() if item.path.is_relative_to(tests) else ""
    if not item.get_closest_marker("interop"):
        return
    system, program = SYSTEMS.get(file, ""), "pyspark" if file == _OF_SPARK else "Kafka"
    if (marker := item.get_closest_marker("system")) is not None:
        system, program = marker.args
    if system and (version := version_of(program)):
        item.user_properties += [(_SYSTEM, system), (_VERSION, version)]


class Recorder:
    """Collects the reports of a run."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        self._said: dict[tuple[str, str], set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        noted = dict(report.user_properties)
        if _SYSTEM not in noted:
            return
        key = str(noted[_SYSTEM]), str(noted[_VERSION])
        outcomes = self._outcomes[key]
        if report.skipped and isinstance(report.longrepr, tuple):
            outcomes[report.nodeid] = "skipped: " + report.longrepr[2].removeprefix("Skipped: ")
        elif report.failed:
            outcomes[report.nodeid] = "failed"
        elif report.when == "call":
            outcomes.setdefault(report.nodeid, "passed")
        if _SAYS in noted:
            self._said[key].add(str(noted[_SAYS]))

    def pytest_sessionfinish(self) -> None:
        """Replace what was known of the systems and versions that this run has covered."""
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        for (system, version), outcomes in self._outcomes.items():
            if not outcomes:  # An interrupted run has begun the tests of a system, and ended none.
                continue
            known.setdefault(system, {})[version] = _summary(outcomes.values(), self._said[system, version])
        RESULTS.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


def _summary(outcomes: Iterable[str], said: Iterable[str]) -> dict[str, Any]:
    found = list(outcomes)
    reasons = sorted({outcome.removeprefix("skipped: ") for outcome in found if outcome.startswith("skipped")})
    return {
        "passed": found.count("passed"),
        "failed": found.count("failed"),
        "skipped": len(found) - found.count("passed") - found.count("failed"),
        "reasons": reasons,
        "says": sorted(said),
    }


@pytest.fixture
def says(record_property: Any) -> Any:
    """Call it with what a system does in the end, such as a refusal; the page shows that next to the result."""
    return lambda sentence: record_property(_SAYS, sentence)
