"""Which directory id the files of a partition give to a node."""

from __future__ import annotations

import random

import pytest

from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey, directory_id_to_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.directory import LockedDirectory
from kraft_trio.storage.directory.known_identity import KnownId, known_directory_id
from kraft_trio.storage.directory.quorum_state import encode_quorum_state
from kraft_trio.storage.disk.partition_files import BOOTSTRAP_CHECKPOINT
from tests.storage.support import DIRECTORY, DIRECTORY_ID, FIRST_SEGMENT, kafkas_files

QUORUM_STATE = f"{DIRECTORY}/quorum-state"
BOOTSTRAP = f"{DIRECTORY}/{BOOTSTRAP_CHECKPOINT}"
NEWEST = f"{DIRECTORY}/00000000000000000005-0000000001.checkpoint"


def kafkas_directory(kind: str) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/data")
    disk.make_directory(DIRECTORY)
    for name, content in kafkas_files(kind).items():
        disk.replace_now(f"{DIRECTORY}/{name}", content)
    return disk


def known(disk: SimulatedDisk, node_id: int = 1) -> KnownId | None:
    return known_directory_id(disk, "/data", node_id)


def test_what_each_file_of_kafkas_says() -> None:
    disk = kafkas_directory("dynamic")
    assert known(disk, 2) is None
    assert known(disk) == KnownId(DIRECTORY_ID, FIRST_SEGMENT)
    disk.remove(FIRST_SEGMENT)
    assert known(disk) == KnownId(DIRECTORY_ID, NEWEST)
    disk.remove(NEWEST)
    assert known(disk) == KnownId(DIRECTORY_ID, BOOTSTRAP)
    disk.remove(BOOTSTRAP)
    assert known(disk) is None
    assert known(kafkas_directory("static")) is None


def test_a_vote_counts_if_it_is_for_this_very_directory() -> None:
    other = ReplicaKey(1, DIRECTORY_ID)
    for voted, version, expected in (
        (other, 1, KnownId(DIRECTORY_ID, QUORUM_STATE)),
        (ReplicaKey(2, DIRECTORY_ID), 1, None),
        (ReplicaKey(1), 0, None),
    ):
        disk = kafkas_directory("static")
        disk.replace_now(QUORUM_STATE, encode_quorum_state(ElectionState(2, None, voted), version, VoterSet()))
        assert known(disk) == expected


@pytest.mark.parametrize("content", [b"", bytes(200), b"\xff" * 200])
def test_damaged_files_count_as_silent(content: bytes) -> None:
    disk = kafkas_directory("dynamic")
    for path in (QUORUM_STATE, FIRST_SEGMENT, NEWEST):
        disk.replace_now(path, content)
    assert known(disk) == KnownId(DIRECTORY_ID, BOOTSTRAP)
    disk.replace_now(BOOTSTRAP, content)
    assert known(disk) is None


def test_the_log_counts_up_to_its_first_damage() -> None:
    disk = kafkas_directory("dynamic")
    whole = disk.read_bytes(FIRST_SEGMENT)
    disk.replace_now(FIRST_SEGMENT, whole + bytes(100))
    assert known(disk) == KnownId(DIRECTORY_ID, FIRST_SEGMENT)
    disk.damage(FIRST_SEGMENT, 80)
    assert known(disk) == KnownId(DIRECTORY_ID, NEWEST)


def test_other_directories_count_for_nothing() -> None:
    """A broker of Kafka keeps its partitions next to the quorum's."""
    disk = kafkas_directory("static")
    disk.make_directory("/data/orders-0")
    disk.replace_now(f"/data/orders-0/{0:020d}.log", kafkas_files("dynamic")[f"{0:020d}.log"])
    disk.replace_now("/data/notes-0", b"a file")
    assert known(disk) is None


def test_kafkas_directory_before_kip_853_gets_an_id() -> None:
    disk = kafkas_directory("static")
    disk.replace_now("/data/meta.properties", b"version=1\nnode.id=1\ncluster.id=c\n")
    with LockedDirectory.open(disk, "/data", 1, random.Random(1)) as directory:
        directory_id = directory.meta_properties.directory_id
    assert directory_id != NO_DIRECTORY_ID
    assert f"directory.id={directory_id_to_text(directory_id)}".encode() in disk.read_bytes("/data/meta.properties")
