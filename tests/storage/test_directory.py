"""A node's directory: formatted once, used by one process, refused when it is another's."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from uuid import UUID

import pytest

from kraft_trio.errors import AlreadyLockedError, StorageError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_to_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.directory.directory import (
    RESERVED_DIRECTORY_IDS,
    LockedDirectory,
    format_directory,
    random_directory_id,
    read_meta_properties,
)
from kraft_trio.storage.directory.meta_properties import MetaProperties, decode_meta_properties, encode_meta_properties
from kraft_trio.storage.disk.real_disk import RealDisk
from tests.storage.support import DIRECTORY_ID, KAFKAS_VOTERS

BOOTSTRAP = "/data/t-0/00000000000000000000-0000000000.checkpoint"


def format_it(disk: SimulatedDisk, *, node_id: int = 1, voters: VoterSet | None = KAFKAS_VOTERS) -> None:
    format_directory(
        disk,
        "/data",
        cluster_id="c",
        node_id=node_id,
        directory_id=DIRECTORY_ID,
        topic_name="t",
        voters=voters,
        kraft_version=1,
        timestamp_ms=0,
    )


def use(disk: SimulatedDisk, node_id: int = 1) -> LockedDirectory:
    return LockedDirectory.open(disk, "/data", node_id, random.Random(1))


def test_a_formatted_directory_is_used_by_its_node() -> None:
    disk = SimulatedDisk()
    format_it(disk)
    with use(disk) as directory:
        assert directory.meta_properties == MetaProperties("c", 1, DIRECTORY_ID)
        assert directory.partition_path("t") == "/data/t-0"
        assert directory.quorum_state_path("t") == "/data/t-0/quorum-state"
        with pytest.raises(AlreadyLockedError):
            use(disk)
    use(disk).__exit__(None, None, None)


def test_the_checkpoint_of_initial_voters_is_read_only() -> None:
    disk = SimulatedDisk()
    format_it(disk)
    assert disk.mode(BOOTSTRAP) == 0o400
    observer = SimulatedDisk()
    format_it(observer, voters=None)
    assert not observer.exists(BOOTSTRAP)


def test_formatting_survives_a_crash_once_it_has_returned() -> None:
    disk = SimulatedDisk()
    format_it(disk)
    before = disk.read_bytes(BOOTSTRAP)
    disk.crash("all")
    assert read_meta_properties(disk, "/data") == MetaProperties("c", 1, DIRECTORY_ID)
    assert disk.read_bytes(BOOTSTRAP) == before


def test_a_crash_while_formatting_never_leaves_it_half_formatted() -> None:
    for crash_at in range(100):
        disk = SimulatedDisk(random.Random(crash_at))
        calls = 0

        def hook(operation: str, path: str, disk: SimulatedDisk = disk, crash_at: int = crash_at) -> None:
            nonlocal calls
            calls += 1
            if calls - 1 == crash_at:
                disk.crash()

        disk.hook = hook
        try:
            format_it(disk)
        except StorageError:
            pass
        disk.hook = None
        if disk.exists("/data") and read_meta_properties(disk, "/data") is not None:
            assert disk.exists(BOOTSTRAP)
        else:
            format_it(disk)
        with use(disk) as directory:
            assert directory.meta_properties.directory_id == DIRECTORY_ID
        if calls <= crash_at:
            return
    pytest.fail("formatting makes more than 100 calls")


def test_formatting_twice_is_refused_and_changes_nothing() -> None:
    disk = SimulatedDisk()
    format_it(disk)
    with pytest.raises(StorageError, match="/data: already formatted for node 1 of cluster c"):
        format_it(disk, node_id=2)
    assert read_meta_properties(disk, "/data") == MetaProperties("c", 1, DIRECTORY_ID)
    assert not disk.locked


def test_another_nodes_directory_is_refused_and_let_go() -> None:
    disk = SimulatedDisk()
    format_it(disk)
    with pytest.raises(StorageError, match=r"formatted for node 1, not for node\.id=2"):
        use(disk, node_id=2)
    assert not disk.locked


def test_a_directory_that_is_missing_or_not_formatted_is_refused() -> None:
    disk = SimulatedDisk()
    with pytest.raises(StorageError, match="/data: there is no such directory"):
        use(disk)
    disk.make_directory("/data")
    with pytest.raises(StorageError, match="/data: not formatted; mount its disk"):
        use(disk)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    disk = RealDisk()
    try:
        with pytest.raises(StorageError, match="/file: cannot be used: Not a directory"):
            LockedDirectory.open(disk, str(path), 1, random.Random(1))
    finally:
        disk.close()
    assert path.read_text() == "mine"


@pytest.mark.parametrize("operation", ["make_directory", "lock", "append", "rename"])
def test_a_directory_that_cannot_be_written_is_refused(operation: str) -> None:
    disk = SimulatedDisk()
    disk.fail(operation, code=errno.EROFS, times=100)
    with pytest.raises(StorageError, match="/data: cannot be formatted"):
        format_it(disk)
    assert not disk.locked


def test_an_unreadable_file_is_named() -> None:
    disk = SimulatedDisk()
    format_it(disk)
    disk.fail("read_bytes", code=errno.EIO)
    with pytest.raises(StorageError, match=r"/data/meta\.properties: cannot be read"):
        use(disk)
    assert not disk.locked


def test_a_directory_without_an_id_gets_one_and_keeps_it() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/data")
    disk.replace_now("/data/meta.properties", b"version=0\nbroker.id=1\ncluster.id=c\n")
    with use(disk) as directory:
        first = directory.meta_properties
    assert first.directory_id != NO_DIRECTORY_ID
    with LockedDirectory.open(disk, "/data", 1, random.Random(2)) as directory:
        assert directory.meta_properties == first


class FewUuids(random.Random):
    def __init__(self, *values: int) -> None:
        super().__init__(0)
        self.values = list(values)

    def getrandbits(self, k: int) -> int:
        return self.values.pop(0)


def test_a_random_directory_id_never_looks_like_an_option() -> None:
    fine = 5 << 64
    assert random_directory_id(FewUuids(62 << 122, fine)) == UUID(int=fine, version=4)
    assert random_directory_id(random.Random(3)).int >= RESERVED_DIRECTORY_IDS
    texts = [directory_id_to_text(random_directory_id(random.Random(seed))) for seed in range(500)]
    assert not [text for text in texts if text.startswith("-")]


def test_meta_properties_round_trip() -> None:
    properties = MetaProperties("a=b:c ü", 2147483647, DIRECTORY_ID)
    assert decode_meta_properties("f", encode_meta_properties(properties)) == properties


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f: empty, expected version, cluster.id, node.id and directory.id"),
        (bytes(107), "f: 107 zero bytes, expected version, cluster.id, node.id and directory.id"),
        (b" \n\n", "f: only white space, expected version, cluster.id, node.id and directory.id"),
        (b"cluster.id=c\n", "f: version=, expected 0 or 1"),
        (b"version=" + bytes(90), "f: version=90 zero bytes, expected 0 or 1"),
        (b"version=2\n", "f: version=2, expected 0 or 1: start the release that wrote it"),
        (b"version=1\ncluster.id=c\n", "f: node.id=, expected a whole number"),
        (b"version=0\ncluster.id=c\nnode.id=1\n", "f: broker.id=, expected a whole number"),
        (b"version=1\ncluster.id=c\nnode.id=-1\n", "f: node.id=-1"),
        (b"version=1\ncluster.id=c\nnode.id=2147483648\n", "f: node.id=2147483648, expected .* to 2147483647"),
        (b"version=1\ncluster.id=c\nnode.id=\\u0663\n", "f: node.id=\u0663, expected a whole number"),
        (b"version=1\ncluster.id=c\nnode.id=" + b"1" * 5000, "f: node.id=1{60}…, expected a whole number"),
        (b"version=1\nnode.id=1\n", "f: cluster.id is not there"),
        (b"version=1\nnode.id=1\ncluster.id=c\\ud800\n", r"f: cluster.id=c\\ud800, expected text"),
        (b"version=" + b"1" * 5000, "f: version=1{60}…, expected 0 or 1"),
        (b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=abc\n", "f: directory.id: 'abc' is not a UUID"),
        (b"version=1\nnode.id=\\u12\n", "f: not a .properties file"),
    ],
)
def test_meta_properties_that_cannot_be_used_are_named(content: bytes, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        decode_meta_properties("f", content)
