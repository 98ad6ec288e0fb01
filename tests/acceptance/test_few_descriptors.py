"""A node that may open few files continues without new segments: no disk has failed."""

from __future__ import annotations

import pytest

from harness.quorum import Quorum, produce_batch
from harness.waiting import wait_until
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.error_codes import ErrorCode
from tests.acceptance.conftest import MakeQuorum

OPEN_FILES = 256
SEGMENT_BYTES = 1024


def append(quorum: Quorum, count: int) -> None:
    """Each batch is as large as a segment may be."""
    leader = quorum.leader()
    for number in range(count):
        batch = encode_batch([NewRecord(bytes(SEGMENT_BYTES), key=b"%d" % (number % 10))], timestamp_ms=0)
        assert produce_batch(leader, batch).error is ErrorCode.none


@pytest.mark.rotating(5)
def test_node_goes_on_once_its_segments_use_all_descriptors(make_quorum: MakeQuorum) -> None:
    """It commits, takes snapshots and trims; with more descriptors it starts new segments again."""
    quorum = make_quorum(
        1,
        kraft_state_machine="latest-by-key",
        metadata_log_segment_bytes=str(SEGMENT_BYTES),
        metadata_log_max_record_bytes_between_snapshots=str(50 * SEGMENT_BYTES),
    )
    node = quorum.nodes[1]
    node.start(prefix=("prlimit", f"--nofile={OPEN_FILES}:{OPEN_FILES}"))
    append(quorum, OPEN_FILES + 50)
    assert len(list(node.partition_directory.glob("*.log"))) < OPEN_FILES

    def newest_snapshot() -> int:
        return max(int(path.name.split("-")[0]) for path in node.partition_directory.glob("*.checkpoint"))

    before = newest_snapshot()
    append(quorum, 100)
    wait_until("a snapshot is taken without free descriptors", lambda: newest_snapshot() > before)
    assert node.running, node.log_text()[-2000:]
    events = [event["event"] for event in node.log_events()]
    assert "too few file descriptors are left: the segment grows on" in events
    assert "storage poisoned" not in events

    node.stop()
    node.start()
    segments = len(list(node.partition_directory.glob("*.log")))
    append(quorum, 5)
    assert len(list(node.partition_directory.glob("*.log"))) >= segments + 4
