"""quorum-state: what an election must not forget, and what damage to it must not become."""

from __future__ import annotations

import errno

import pytest
import structlog
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.errors import StorageError, StorageFailure
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import NO_DIRECTORY_ID, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.quorum_state import (
    QuorumStateFile,
    decode_quorum_state,
    encode_quorum_state,
    with_crc,
)
from kraft_trio.storage.directory.quorum_state_check import check_quorum_state, refuse_missing_quorum_state
from kraft_trio.storage.snapshots.checkpoint import write_bootstrap_checkpoint
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from tests.storage.support import DIRECTORY, DIRECTORY_ID, STATIC_VOTERS, batch, open_log, write_snapshot

PATH = "/q/quorum-state"
STATE = ElectionState(3, leader_id=2, voted_key=ReplicaKey(1, DIRECTORY_ID))


def disk_and_file(latency: float = 0.0) -> tuple[SimulatedDisk, QuorumStateFile]:
    disk = SimulatedDisk(sync_latency=lambda: latency)
    disk.make_directory("/q")
    return disk, QuorumStateFile(disk, PATH)


_ids = st.one_of(st.none(), st.integers(0, 2**31 - 1))


def decoded(data: bytes) -> ElectionState | None:
    """None where the file is refused."""
    try:
        return decode_quorum_state("f", data)
    except StorageError:
        return None


@pytest.mark.parametrize("version", [0, 1])
def test_no_bit_can_flip_unseen(version: int) -> None:
    data = with_crc(encode_quorum_state(STATE, version, STATIC_VOTERS))
    assert decoded(data) is not None
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            assert decoded(bytes(damaged)) is None, f"bit {bit} of byte {position}"


async def test_the_first_line_is_kafkas_and_the_second_is_optional() -> None:
    disk, file = disk_and_file()
    await file.write(STATE, 1, VoterSet())
    line, crc, end = disk.read_bytes(PATH).split(b"\n")
    assert line == encode_quorum_state(STATE, 1, VoterSet())
    assert (len(crc), end) == (8, b"")
    disk.replace_now(PATH, line)
    assert file.read() == STATE
    disk.replace_now(PATH, line + b"\n")
    assert file.read() == STATE


class TestBesideTheLog:
    """At start: see `storage.directory.quorum_state_check`."""

    KEY = ReplicaKey(1, DIRECTORY_ID)

    def test_a_log_with_records_has_one(self) -> None:
        disk = SimulatedDisk()
        refuse_missing_quorum_state(disk, DIRECTORY)
        log = open_log(disk)
        refuse_missing_quorum_state(disk, DIRECTORY)
        log.append_as_leader(batch(b"value"), 1)
        with pytest.raises(StorageError, match=f"{DIRECTORY}/quorum-state: missing, expected next to .*log, which has"):
            refuse_missing_quorum_state(disk, DIRECTORY)

    async def test_so_has_a_snapshot_without_a_log(self) -> None:
        disk = SimulatedDisk()
        disk.make_directory(DIRECTORY)
        write_bootstrap_checkpoint(disk, DIRECTORY, STATIC_VOTERS, 1, 0)
        refuse_missing_quorum_state(disk, DIRECTORY)
        await write_snapshot(disk, OffsetAndEpoch(10, 3), ControlState(0), [b"state"])
        with pytest.raises(
            StorageError, match=f"{DIRECTORY}/quorum-state: missing, expected next to .*10-.*checkpoint:"
        ):
            refuse_missing_quorum_state(disk, DIRECTORY)

    @pytest.mark.parametrize("voted", [None, KEY, ReplicaKey(1)])
    def test_a_leader_voted_for_itself(self, voted: ReplicaKey | None) -> None:
        check_quorum_state(PATH, ElectionState(3, 1, voted), self.KEY, OffsetAndEpoch(5, 3))
        check_quorum_state(PATH, ElectionState(3, 2, ReplicaKey(2)), self.KEY, OffsetAndEpoch(5, 3))
        with pytest.raises(StorageError, match=f"{PATH}: leaderId 1, which is this node, with votedId 2.* expected 1"):
            check_quorum_state(PATH, ElectionState(3, 1, ReplicaKey(2)), self.KEY, OffsetAndEpoch(5, 3))

    def test_one_that_is_older_than_the_log_is_told_of(self) -> None:
        with structlog.testing.capture_logs() as logs:
            check_quorum_state(PATH, ElectionState(3), self.KEY, OffsetAndEpoch(5, 3))
            assert logs == []
            check_quorum_state(PATH, ElectionState(2), self.KEY, OffsetAndEpoch(5, 3))
        assert [(entry["file"], entry["leader_epoch"], entry["expected"][:1]) for entry in logs] == [(PATH, 2, "3")]


@given(st.integers(0, 2**31 - 1), _ids, _ids, st.uuids(), st.sampled_from([0, 1]))
def test_what_is_encoded_is_decoded(
    epoch: int, leader_id: int | None, voted_id: int | None, directory_id: object, version: int
) -> None:
    # Version 0 knows no directory ids.
    directory = directory_id if version == 1 else NO_DIRECTORY_ID
    voted = None if voted_id is None else ReplicaKey(voted_id, directory)  # type: ignore[arg-type]
    state = ElectionState(epoch, leader_id, voted)
    assert decode_quorum_state("f", encode_quorum_state(state, version, STATIC_VOTERS)) == state


async def test_a_written_state_survives_a_crash() -> None:
    disk, file = disk_and_file()
    assert file.read() is None
    await file.write(STATE, 1, VoterSet())
    disk.crash("all")
    assert file.read() == STATE


async def test_a_cancelled_write_is_durable_before_its_caller_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    disk, file = disk_and_file(latency=3.0)
    with trio.move_on_after(1):
        await file.write(STATE, 1, VoterSet())
    assert trio.current_time() == 3.0
    disk.crash("all")
    assert file.read() == STATE


@pytest.mark.parametrize("operation", ["append", "sync", "rename", "sync_directory"])
async def test_a_write_that_fails_says_so_and_leaves_a_sound_state(operation: str) -> None:
    disk, file = disk_and_file()
    await file.write(STATE, 1, VoterSet())
    disk.fail(operation, code=errno.EIO)
    newer = ElectionState(4)
    with pytest.raises(StorageFailure, match=f"{PATH}: cannot be written"):
        await file.write(newer, 1, VoterSet())
    disk.crash()
    assert file.read() in (STATE, newer)


def test_an_unreadable_file_is_not_a_missing_one() -> None:
    disk, file = disk_and_file()
    disk.replace_now(PATH, encode_quorum_state(STATE, 1, VoterSet()))
    disk.fail("read_bytes", code=errno.EIO)
    with pytest.raises(StorageError, match=f"{PATH}: cannot be read"):
        file.read()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty, expected a line of JSON; replace this voter"),
        (bytes(114), "114 zero bytes, expected a line of JSON; replace this voter"),
        (b'{"data_version":0,"leaderEpoch":1,"leaderId":1,"votedId":-1}' + bytes(40), "not a line of JSON: Extra data"),
        (
            b'{"data_version":0,"leaderEpoch":1,"leaderId":1,"votedId":-1}\n' + bytes(400),
            "line 2: 400 zero bytes, expected the CRC-32C of line 1, .*; replace this voter",
        ),
        (
            b'{"data_version":0,"leaderEpoch":1,"leaderId":1,"votedId":-1,"currentVoters":[1]}',
            r"currentVoters \[1\], expected a list of objects",
        ),
        (
            b'{"data_version":0,"leaderEpoch":1,"leaderId":1,"votedId":-1,"currentVoters":[{"voterId":-1}]}',
            "voterId -1, expected a whole number from 0",
        ),
        (b'{"leaderId":1', "not a line of JSON"),
        (b"\xff\xfe\x00", "not a line of JSON"),
        (b"[" * 200_000, "not a line of JSON"),
        (b'{"data_version":' + b"1" * 5000 + b"}", "not a line of JSON"),
        (b"[]", "list, expected an object"),
        (b"{}", "data_version None"),
        (b'{"data_version":2}', "data_version 2, expected a whole number from 0 to 1"),
        (b'{"data_version":0,"leaderEpoch":"1"}', "leaderEpoch '1'"),
        (b'{"data_version":0,"leaderEpoch":-1}', "leaderEpoch -1, expected a whole number from 0"),
        (b'{"data_version":0,"leaderEpoch":true}', "leaderEpoch True"),
        (b'{"data_version":0,"leaderEpoch":1,"leaderId":-2}', "leaderId -2, expected a whole number from -1"),
        (b'{"data_version":0,"leaderEpoch":1,"leaderId":1}', "votedId None"),
        (
            b'{"data_version":1,"leaderEpoch":1,"leaderId":1,"votedId":1,"votedDirectoryId":"x"}',
            "votedDirectoryId 'x', expected a UUID",
        ),
        (b'{"data_version":1,"leaderEpoch":1,"leaderId":1,"votedId":1}', "votedDirectoryId None"),
        (
            b'{"data_version":1,"leaderEpoch":1,"leaderId":1,"votedId":-1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ"}',
            "votedDirectoryId 'J8aAPcfLQt2bqs1JT_rMgQ' with votedId -1, expected 'AAAAAAAAAAAAAAAAAAAAAA'",
        ),
        (
            b'{"data_version":0,"leaderEpoch":1,"leaderId":1,"votedId":-1}\n00000000\n',
            "line 2: '00000000', expected the CRC-32C of line 1, ",
        ),
        (b'{"data_version":0,"leaderEpoch":1,"leaderId":1,"votedId":-1}\nx', "line 2: 'x', expected the CRC-32C"),
    ],
)
def test_a_damaged_state_is_refused_by_file_and_field(content: bytes, message: str) -> None:
    disk, file = disk_and_file()
    disk.replace_now(PATH, content)
    with pytest.raises(StorageError, match=f"{PATH}: {message}"):
        file.read()
