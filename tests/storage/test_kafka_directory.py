"""Whether a directory is one of Kafka's controllers or brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.batches.batch import encode_control_batch
from kraft_trio.storage.batches.control_records import LeaderChange, SnapshotFooter
from kraft_trio.storage.directory.kafka_directory import trace_of_kafka
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from kraft_trio.storage.snapshots.snapshot_writer import first_records
from tests.storage.support import batch, kafkas_files

TOPIC = "__cluster_metadata"
LOG = f"{0:020d}.log"
FEATURE_LEVEL = bytes.fromhex("010c0011") + b"metadata.version" + bytes.fromhex("001d00")
NO_OP = bytes.fromhex("01140000")
EPOCH_START = encode_control_batch([LeaderChange(1, (1,), (1,))], timestamp_ms=1)


def snapshot(*values: bytes) -> bytes:
    header = encode_control_batch(first_records(ControlState(1)), timestamp_ms=1)
    records = batch(*values, base_offset=1) if values else b""
    footer = encode_control_batch([SnapshotFooter()], timestamp_ms=1, base_offset=1 + len(values))
    return header + records + footer


def snapshot_name(offset: int) -> str:
    return f"{TOPIC}-0/{checkpoint_name(OffsetAndEpoch(offset, min(offset, 1)))}"


def traced(directory: Path, files: dict[str, bytes], *, may_observe: bool = False) -> str | None:
    (directory / f"{TOPIC}-0").mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    disk = RealDisk()
    try:
        found = trace_of_kafka(disk, str(directory), TOPIC, may_observe=may_observe)
    finally:
        disk.close()
    return None if found is None else found.removeprefix(f"{directory}/")


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"bootstrap.checkpoint": snapshot(FEATURE_LEVEL)}, "bootstrap.checkpoint: a file of Apache Kafka's"),
        (
            {snapshot_name(0): snapshot(FEATURE_LEVEL)},  # as `kafka-storage.sh format` of Kafka 4.4 leaves it
            f"{snapshot_name(0)}: a metadata record of Apache Kafka's, FEATURE_LEVEL_RECORD at 1",
        ),
        (
            {f"{TOPIC}-0/{LOG}": EPOCH_START + batch(NO_OP, base_offset=1)},
            f"{TOPIC}-0/{LOG}: a metadata record of Apache Kafka's, NO_OP_RECORD at 1",
        ),
        (
            {snapshot_name(9): snapshot(FEATURE_LEVEL), f"{TOPIC}-0/{9:020d}.log": b""},
            f"{snapshot_name(9)}: a metadata record of Apache Kafka's, FEATURE_LEVEL_RECORD at 1",
        ),
        (
            {snapshot_name(0): snapshot(), f"{TOPIC}-0/{LOG}": EPOCH_START + batch(FEATURE_LEVEL, base_offset=1)},
            f"{TOPIC}-0/{LOG}: a metadata record of Apache Kafka's, FEATURE_LEVEL_RECORD at 1",
        ),
        (
            {snapshot_name(9): b"damaged", f"{TOPIC}-0/{LOG}": EPOCH_START + batch(NO_OP, base_offset=1)},
            f"{TOPIC}-0/{LOG}: a metadata record of Apache Kafka's, NO_OP_RECORD at 1",
        ),
    ],
)
def test_directory_of_a_controller_is_known(tmp_path: Path, files: dict[str, bytes], found: str) -> None:
    assert traced(tmp_path, files) == found


@pytest.mark.parametrize(
    "files",
    [
        {},
        {snapshot_name(0): snapshot()},
        {f"{TOPIC}-0/{LOG}": EPOCH_START},
        {f"{TOPIC}-0/{name}": content for name, content in kafkas_files("dynamic").items()},  # of its raft alone
        {snapshot_name(5): snapshot(b"value"), f"{TOPIC}-0/{LOG}": EPOCH_START + batch(NO_OP, base_offset=1)},
        {f"{TOPIC}-0/{LOG}": EPOCH_START + batch(b"\x01\x02\x00\x07", NO_OP, base_offset=1)},
        {f"{TOPIC}-0/{LOG}": EPOCH_START + batch(NO_OP, base_offset=1)[:-1]},  # torn
        {f"{TOPIC}-0/{LOG}": EPOCH_START + b"\0" * 100},
    ],
)
def test_directory_of_ours_is_none(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert traced(tmp_path, files) is None


def test_missing_directory_is_none(tmp_path: Path) -> None:
    disk = RealDisk()
    assert trace_of_kafka(disk, str(tmp_path / "none"), TOPIC, may_observe=False) is None
    disk.close()


def test_observer_of_controllers_has_their_records(tmp_path: Path) -> None:
    assert traced(tmp_path, {snapshot_name(9): snapshot(FEATURE_LEVEL)}, may_observe=True) is None


@pytest.mark.parametrize("name", ["bootstrap.checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint"])
def test_brokers_directory_is_no_observers(tmp_path: Path, name: str) -> None:
    assert traced(tmp_path, {name: b"0\n0\n"}, may_observe=True) == f"{name}: a file of Apache Kafka's"
