"""`kraft server` with a state machine: the log is trimmed behind its snapshots; without one it is kept whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.quorum import Quorum, produce_batch
from harness.waiting import wait_until
from kraft_trio.storage.batches.batch import NewRecord, Record, encode_batch
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint
from kraft_trio.wire.error_codes import ErrorCode
from tests.acceptance.conftest import MakeQuorum

SOON = {
    "metadata.log.segment.bytes": "20000",
    "metadata.log.max.record.bytes.between.snapshots": "50000",
    "metadata.max.retention.bytes": "0",
}
KEYS = 10

COUNTING = """
from kraft_trio import NewRecord


class Counting:
    def __init__(self):
        self.count = 0

    async def on_commit(self, records):
        self.count += len(records)

    async def load(self, end_offset, records):
        async for batch in records:
            self.count = int(batch[0].value)

    def save(self):
        return [NewRecord(b"%d" % self.count)]
"""


def quorum_of_one(make_quorum: MakeQuorum, **settings: str) -> Quorum:
    quorum = make_quorum(voters=1, **{**SOON, **settings})
    quorum.start()
    return quorum


def write(quorum: Quorum, start: int, count: int) -> None:
    """Batches of one record a key; each value names its batch."""
    node = quorum.leader()
    for number in range(start, start + count):
        records = [NewRecord(b"%0200d" % number, b"key %d" % key) for key in range(KEYS)]
        assert produce_batch(node, encode_batch(records, timestamp_ms=number)).error is ErrorCode.none


def log_start_offset(node: NodeProcess) -> int:
    return min(int(path.stem) for path in node.partition_directory.glob("*.log"))


def newest_snapshot(node: NodeProcess) -> tuple[int, list[Record]]:
    """Its end offset (exclusive), and its records."""

    def read() -> tuple[int, bytes] | None:
        path = max(node.partition_directory.glob("*.checkpoint"), default=None)
        try:
            return path and (int(path.name[:20]), path.read_bytes())
        except FileNotFoundError:  # a newer one has taken its place
            return None

    end_offset, data = wait_until("a snapshot stays", read)
    return end_offset, [record for record in read_checkpoint(data) if isinstance(record, Record)]


@pytest.mark.rotating(5)
def test_the_latest_values_are_all_that_is_kept(make_quorum: MakeQuorum) -> None:
    quorum = quorum_of_one(make_quorum, **{"kraft.state.machine": "latest-by-key"})
    node = quorum.nodes[1]
    write(quorum, 0, 60)
    wait_until("the log is trimmed", lambda: log_start_offset(node) > 0)
    end_offset, records = newest_snapshot(node)
    assert [record.key for record in records] == [b"key %d" % key for key in range(KEYS)]
    [value] = {record.value for record in records}
    assert value is not None
    assert {record.timestamp_ms for record in records} == {int(value)}

    node.kill()
    node.start()
    node.wait_until_listening()
    write(quorum, 60, 60)
    wait_until("another snapshot", lambda: newest_snapshot(node)[0] > end_offset + 30 * KEYS)
    later = newest_snapshot(node)[1]
    assert [record.key for record in later] == [record.key for record in records]
    assert all(record.value is not None and record.value > value for record in later)


@pytest.mark.rotating(5)
def test_a_machine_of_the_users_goes_on_where_its_snapshot_ends(
    make_quorum: MakeQuorum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counting_machine.py").write_text(COUNTING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    quorum = quorum_of_one(make_quorum, **{"kraft.state.machine": "counting_machine:Counting"})
    node = quorum.nodes[1]
    for epoch, start in enumerate((0, 60, 120), 1):
        write(quorum, start, 60)
        wait_until("a new snapshot", lambda at=start: newest_snapshot(node)[0] > (at + 20) * KEYS)  # type: ignore[misc]
        wait_until("the log is trimmed", lambda: log_start_offset(node) > 0)
        node.kill()
        end_offset, [count] = newest_snapshot(node)
        # The rest are the protocol's own: three records of the first epoch, one of each later one.
        assert end_offset == int(count.value or b"") + 2 + epoch
        node.start()
        node.wait_until_listening()


@pytest.mark.rotating(5)
def test_without_one_nothing_of_the_log_is_lost(make_quorum: MakeQuorum) -> None:
    quorum = quorum_of_one(make_quorum)
    node = quorum.nodes[1]
    write(quorum, 0, 60)
    assert len(list(node.partition_directory.glob("*.log"))) > 3
    assert log_start_offset(node) == 0
    assert [path.name for path in node.partition_directory.glob("*.checkpoint")] == [f"{0:020d}-{0:010d}.checkpoint"]
