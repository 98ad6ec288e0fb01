"""What Kafka makes of the zeros that a killed node leaves behind its last segment's batches."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.kafka import java
from harness.waiting import wait_until
from kraft_trio.storage.batches.batch import NewRecord
from tests.interop.raft_server import JVM_SECONDS, TOPIC, RaftServer, our_bytes, start_ours
from tests.interop.test_kafka_observer import append


def test_a_killed_nodes_log_is_dumped_and_gone_on_with(tmp_path: Path) -> None:
    """Kafka's tool prints all batches before it fails.  Kafka's raft cuts the zeros, and leads."""
    node = start_ours(tmp_path)
    for number in range(3):
        append(node, NewRecord(b"value %d" % number))
    node.kill()
    [segment] = node.directory.glob(f"{TOPIC}-0/*.log")
    written = our_bytes(node)
    assert len(written) < segment.stat().st_size

    done = subprocess.run(
        java("kafka.tools.DumpLogSegments", "--print-data-log", "--files", str(segment)),
        capture_output=True,
        text=True,
        timeout=JVM_SECONDS,
        check=False,
    )
    printed = [line.rpartition("payload: ")[2] for line in done.stdout.splitlines() if "payload: " in line]
    assert printed == ["value 0", "value 1", "value 2"]
    assert done.returncode == 1
    assert "CorruptRecordException: Found record size 0 smaller than minimum record overhead (14)" in done.stderr

    kafka = RaftServer(tmp_path, str(node.endpoint), in_place_of=node)

    def goes_on() -> bool:
        return kafka.log_bytes()[len(written) :].startswith((6).to_bytes(8, "big"))

    try:
        wait_until("Kafka has appended what follows", goes_on, JVM_SECONDS)
    finally:
        kafka.stop()
    assert kafka.log_bytes().startswith(written)
