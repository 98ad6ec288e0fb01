"""Directories that Apache Kafka's raft classes wrote: opened as they are, and written again byte for byte."""

from __future__ import annotations

import pytest

from kraft_trio.errors import CorruptSnapshotError, StorageError
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import NewRecord, Record, encode_batch, encode_control_batch, iter_headers
from kraft_trio.storage.batches.control_records import (
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
)
from kraft_trio.storage.directory.quorum_state import (
    QuorumStateFile,
    StoredVoters,
    decode_quorum_state,
    encode_quorum_state,
)
from kraft_trio.storage.log.static_voters import check_static_voters
from kraft_trio.storage.segments.leader_epoch_checkpoint import decode_leader_epochs
from kraft_trio.storage.snapshots.checkpoint import encode_bootstrap_checkpoint, read_checkpoint
from tests.storage.support import (
    DIRECTORY,
    FIRST_SEGMENT,
    KAFKAS_VOTERS,
    STATIC_VOTERS,
    kafkas_files,
    open_log,
    values_in,
)

BOOTSTRAP = "00000000000000000000-0000000000.checkpoint"


def disk_with(directory: str) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    for name, content in kafkas_files(directory).items():
        disk.replace_now(f"{DIRECTORY}/{name}", content)
    return disk


@pytest.mark.parametrize(
    ("directory", "end_offset", "voters", "kraft_version", "voters_offset"),
    [("dynamic", 5, KAFKAS_VOTERS, 1, 2), ("static", 3, STATIC_VOTERS, 0, None)],
)
async def test_kafkas_directory_is_opened_and_left_as_it_was(
    directory: str, end_offset: int, voters: VoterSet, kraft_version: int, voters_offset: int | None
) -> None:
    disk = disk_with(directory)
    log = open_log(disk)
    assert log.end == OffsetAndEpoch(end_offset, 1)
    assert log.epochs.entries == ((1, 0),)
    assert (log.voters.voters, log.voters.kraft_version, log.voters.voters_offset) == (
        voters,
        kraft_version,
        voters_offset,
    )
    assert values_in(log) == [b"hello", b"raft"]
    await log.close()
    assert {name: disk.read_bytes(f"{DIRECTORY}/{name}") for name in disk.list_directory(DIRECTORY)} == kafkas_files(
        directory
    )


async def test_kafkas_static_voters_are_not_enlarged_by_editing_the_file() -> None:
    path = f"{DIRECTORY}/quorum-state"
    disk = disk_with("static")
    file = QuorumStateFile(disk, path)
    file.read()
    assert file.voters == StoredVoters(1, (1,))
    with pytest.raises(StorageError, match=f"^{path}: the voters were 1, but controller.quorum.voters names 1, 2, 3: "):
        check_static_voters(path, file.voters, open_log(disk))
    disk = disk_with("dynamic")
    file = QuorumStateFile(disk, path)
    file.read()
    check_static_voters(path, file.voters, open_log(disk))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes(180), "180 zero bytes, expected batches of records"),
        (b"", "the snapshot ends at position 0 without its footer"),
        (b"\xff" * 180, "batch at position 0: magic -1, expected 2"),
    ],
)
def test_a_damaged_bootstrap_checkpoint_can_be_missed_if_the_log_names_the_voters(content: bytes, reason: str) -> None:
    path = f"{DIRECTORY}/{BOOTSTRAP}"
    disk = disk_with("dynamic")
    disk.replace_now(path, content)
    with pytest.raises(
        CorruptSnapshotError,
        match=f"^{path}: {reason}; the log names the voters since offset 2: remove this file if the rest is sound$",
    ):
        open_log(disk)
    disk.remove(path)
    assert open_log(disk).voters.voters == KAFKAS_VOTERS
    for name in disk.list_directory(DIRECTORY):
        if name != "partition.metadata":
            disk.remove(f"{DIRECTORY}/{name}")
    disk.replace_now(path, content)
    with pytest.raises(
        CorruptSnapshotError, match=f"^{path}: {reason}; no record names the voters: replace this voter"
    ):
        open_log(disk)


async def test_the_same_history_gives_kafkas_bytes() -> None:
    kafkas = kafkas_files("dynamic")
    (_, first), (_, second) = iter_headers(kafkas[FIRST_SEGMENT.rpartition("/")[2]])
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    disk.replace_now(f"{DIRECTORY}/{BOOTSTRAP}", kafkas[BOOTSTRAP])
    log = open_log(disk)
    assert log.voters.came_from_bootstrap
    assert (log.voters.voters, log.voters.kraft_version) == (KAFKAS_VOTERS, 1)
    log.append_as_leader(
        encode_control_batch(
            [LeaderChange(1, (1,), (1,)), KRaftVersion(1), VotersRecord(KAFKAS_VOTERS)],
            timestamp_ms=first.base_timestamp_ms,
        ),
        leader_epoch=1,
    )
    assert not log.voters.came_from_bootstrap
    log.append_as_leader(
        encode_batch([NewRecord(b"hello"), NewRecord(b"raft")], timestamp_ms=second.base_timestamp_ms), leader_epoch=1
    )
    await log.close()
    written = {name: disk.read_bytes(f"{DIRECTORY}/{name}") for name in disk.list_directory(DIRECTORY)}
    later_snapshot = "00000000000000000005-0000000001.checkpoint"
    expected = {name: content for name, content in kafkas.items() if name not in ("quorum-state", later_snapshot)}
    assert written == expected


def test_the_bootstrap_checkpoint_is_kafkas() -> None:
    kafkas = kafkas_files("dynamic")[BOOTSTRAP]
    (_, first), (_, last) = iter_headers(kafkas)
    header = next(read_checkpoint(kafkas))
    assert isinstance(header, SnapshotHeader)
    # Kafka's own times differ between the header record and the batches; ours are one time.
    encoded = encode_bootstrap_checkpoint(KAFKAS_VOTERS, 1, 0)
    assert list(read_checkpoint(encoded))[1:] == [
        KRaftVersion(1),
        VotersRecord(KAFKAS_VOTERS),
        SnapshotFooter(),
    ]
    again = encode_control_batch(
        [header, KRaftVersion(1), VotersRecord(KAFKAS_VOTERS)], timestamp_ms=first.base_timestamp_ms
    ) + encode_control_batch([SnapshotFooter()], timestamp_ms=last.base_timestamp_ms, base_offset=3)
    assert again == kafkas
    assert len(encoded) == len(kafkas)


def test_a_later_snapshot_is_read() -> None:
    records = list(read_checkpoint(kafkas_files("dynamic")["00000000000000000005-0000000001.checkpoint"]))
    assert [type(record) for record in records] == [SnapshotHeader, KRaftVersion, VotersRecord, Record, SnapshotFooter]
    assert isinstance(records[3], Record)
    assert (records[3].offset, records[3].value) == (3, b"state")


def test_the_epoch_checkpoint_is_read() -> None:
    assert decode_leader_epochs("f", kafkas_files("static")["leader-epoch-checkpoint"]) == [(1, 0)]


@pytest.mark.parametrize(("directory", "kraft_version"), [("dynamic", 1), ("static", 0)])
def test_quorum_state_is_kafkas(directory: str, kraft_version: int) -> None:
    content = kafkas_files(directory)["quorum-state"]
    state = decode_quorum_state("quorum-state", content)
    assert state == ElectionState(1, leader_id=1, voted_key=None)
    assert encode_quorum_state(state, kraft_version, VoterSet([Voter(ReplicaKey(1))])) == content


async def test_a_log_behind_a_snapshot_takes_its_voters_and_epoch() -> None:
    kafkas = kafkas_files("dynamic")
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    name = "00000000000000000005-0000000001.checkpoint"
    disk.replace_now(f"{DIRECTORY}/{name}", kafkas[name])
    log = open_log(disk)
    assert (log.log_start_offset, log.end) == (5, OffsetAndEpoch(5, 1))
    assert (log.voters.voters, log.voters.voters_offset) == (KAFKAS_VOTERS, 4)
    await log.close()
