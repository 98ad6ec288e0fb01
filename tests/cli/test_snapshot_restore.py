"""`kraft snapshot restore`: what is written, what is refused, and that the node is what was meant to be."""

from __future__ import annotations

import errno
import itertools
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft_trio.cli import run
from kraft_trio.cli.directory.restoration import Restoration, plan_restoration, restore
from kraft_trio.config import NodeConfig, parse_config
from kraft_trio.errors import KraftError, StorageError, StorageFailure
from kraft_trio.protocol.epoch_limits import MAX_EPOCH
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, directory_id_from_text
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.batches.batch import (
    NewRecord,
    Record,
    decode_records,
    encode_batch,
    encode_control_batch,
    iter_headers,
    peek_header,
)
from kraft_trio.storage.batches.batch_header import patch_base_offset_and_epoch
from kraft_trio.storage.batches.control_records import SnapshotFooter
from kraft_trio.storage.checks.partition_check import check_partition
from kraft_trio.storage.directory.directory import RESTORING, LockedDirectory, read_meta_properties
from kraft_trio.storage.disk.partition_files import checkpoint_name
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.segments.producer_snapshot import encode_producer_snapshot
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, check_snapshot
from kraft_trio.storage.snapshots.snapshot_writer import SnapshotWriter
from tests.storage.support import kafkas_files

OLD_CLUSTER, NEW_CLUSTER = "fMCL8kv1SWm87L_Md-I2hg", "ySvf4iIwQ5a13rqtClr5pg"
END = OffsetAndEpoch(500, 7)
FOOTER_BYTES = len(encode_control_batch([SnapshotFooter()], timestamp_ms=0))
OLD_VOTERS = VoterSet(
    Voter(
        ReplicaKey(node_id, directory_id_from_text(OLD_CLUSTER)), Endpoints({"OLD": Endpoint(f"old-{node_id}", 9093)})
    )
    for node_id in (1, 2, 3)
)
RECORDS = [NewRecord(b"%050d" % number, b"key %d" % number) for number in range(3000)]


def written(
    directory: Path,
    state: ControlState | None = None,
    records: Sequence[NewRecord] = RECORDS,
    end: OffsetAndEpoch = END,
) -> Path:
    """A snapshot of a cluster of three voters, in that directory."""
    state = state or ControlState(1_700_000_000_000, OLD_VOTERS, 1)
    directory.mkdir(parents=True, exist_ok=True)

    async def write() -> None:
        disk = RealDisk()
        async with SnapshotWriter(disk, str(directory), end, state) as writer:
            await writer.append(records)
            await writer.finish()
        disk.close()

    trio.run(write)
    return directory / checkpoint_name(end)


@pytest.fixture
def properties(tmp_path: Path) -> Callable[..., str]:
    def write(**changes: str | None) -> str:
        lines = {
            "node.id": "4",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "metadata.log.dir": str(tmp_path / "node"),
            **{key.replace("_", "."): text for key, text in changes.items()},
        }
        path = tmp_path / "node.properties"
        path.write_text("".join(f"{name}={text}\n" for name, text in lines.items() if text is not None))
        return str(path)

    return write


def restored(file: Path, properties: str, *flags: str) -> int:
    return run(["snapshot", "restore", str(file), "-c", properties, "--cluster-id", NEW_CLUSTER, *flags])


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_node_is_the_only_voter_of_a_recovered_cluster(
    tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "backup")
    before = file.read_bytes()
    assert restored(file, properties()) == 0
    disk, node = RealDisk(), tmp_path / "node"
    meta = read_meta_properties(disk, str(node))
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == (NEW_CLUSTER, 4)
    assert meta.directory_id not in {voter.key.directory_id for voter in OLD_VOTERS}

    partition = node / "__cluster_metadata-0"
    report = check_partition(disk, str(partition))
    assert report.problems == []
    assert (report.log_start_offset, report.log_end, report.kraft_version) == (500, END, 1)
    assert report.election_state == ElectionState(1000), "ahead of whatever the old cluster comes to"
    summary = check_snapshot(disk, str(partition / checkpoint_name(END)), END)
    assert summary.record_count == len(RECORDS)
    state = summary.control_state
    assert state.last_contained_log_timestamp_ms == 1_700_000_000_000
    assert state.voters == VoterSet([parse_config_of(properties()).as_voter(meta.directory_id)])
    assert records_in(partition / checkpoint_name(END)) == records_in(file)
    assert file.read_bytes() == before
    out, err = capsys.readouterr()
    assert (
        err == f"kraft: warning: {file}: its cluster is unknown; make sure that --cluster-id is not that cluster's id\n"
    )
    assert out == (
        f"Restored {node} from {file}: snapshot 500@7, 3000 records, kraft.version 1; cluster id {NEW_CLUSTER}, "
        f"node id 4, directory id {str(ReplicaKey(4, meta.directory_id))[2:]}\n"
    )


def parse_config_of(path: str) -> Any:
    lines = (line.split("=", 1) for line in Path(path).read_text().splitlines())
    return parse_config(dict(lines)).config


def records_in(file: Path) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.timestamp_ms, r.key, r.value) for r in read_checkpoint(file.read_bytes()) if isinstance(r, Record)]


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_checkpoint_of_kafkas(kind: str, tmp_path: Path, properties: Callable[..., str]) -> None:
    files = kafkas_files(kind)
    name = max(name for name in files if name.endswith(".checkpoint"))
    file = tmp_path / name
    file.write_bytes(files[name])
    changes: dict[str, str | None] = {}
    if kind == "static":
        changes = {"controller.quorum.voters": "4@127.0.0.1:9093", "controller.quorum.bootstrap.servers": None}
    assert restored(file, properties(**changes)) == 0
    report = check_partition(RealDisk(), str(tmp_path / "node" / "__cluster_metadata-0"))
    assert report.problems == []
    end_offset = int(file.name[:20])
    assert (report.log_start_offset, report.log_end) == (end_offset, OffsetAndEpoch(end_offset, 1))
    assert report.kraft_version == (1 if kind == "dynamic" else 0)
    [summary] = report.snapshots
    voters = summary.control_state.voters
    assert (None if voters is None else voters.ids) == ((4,) if kind == "dynamic" else None)
    there = tmp_path / "node" / "__cluster_metadata-0" / file.name
    assert records_in(there) == records_in(file)
    if kind == "static":
        assert there.read_bytes() == file.read_bytes()


class TestRefusals:
    """Nothing is changed by any of them."""

    @pytest.fixture(autouse=True)
    def _unchanged(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
        yield
        assert not (tmp_path / "node" / "meta.properties").exists()
        assert not list(tmp_path.glob("node/**/*.checkpoint*"))

    def error(self, capsys: pytest.CaptureFixture[str]) -> str:
        lines = capsys.readouterr().err.splitlines()
        return next(line for line in lines if line.startswith("kraft: error: ")).removeprefix("kraft: error: ")

    def test_a_directory_that_is_not_empty(
        self, tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "node").mkdir()
        (tmp_path / "node" / "precious").write_text("data")
        assert restored(written(tmp_path), properties()) == 1
        assert self.error(capsys) == (
            f"{tmp_path}/node: holds precious; expected an empty or missing directory: nothing is overwritten"
        )
        assert contents(tmp_path / "node") == {"precious": b"data"}

    def test_a_directory_on_a_file_system_that_is_not_mounted(
        self, tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        mount = tmp_path / "mount"
        assert restored(written(tmp_path), properties(metadata_log_dir=str(mount / "node"))) == 1
        assert self.error(capsys) == f"{mount}/node: cannot be restored to: there is no directory {mount}"
        assert not mount.exists()

    def test_an_epoch_after_which_there_is_none(
        self, tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert restored(written(tmp_path, end=OffsetAndEpoch(5000, MAX_EPOCH - 10)), properties()) != 0
        assert self.error(capsys).endswith(f"its epoch {MAX_EPOCH - 10} leaves none to restore in")

    def test_the_cluster_that_the_snapshot_is_of(
        self, tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Known from the note next to a saved one, or from the directory of the node that it lies in."""
        saved = written(tmp_path / "saved")
        (tmp_path / "saved" / f"{saved.name}.properties").write_text(
            f"snapshot.end.offset=500\nsnapshot.epoch=7\ncluster.id={NEW_CLUSTER}\n"
        )
        nodes = written(tmp_path / "old" / "topic-0")
        (tmp_path / "old" / "meta.properties").write_text(f"version=1\ncluster.id={NEW_CLUSTER}\nnode.id=1\n")
        for file in (saved, nodes):
            assert restored(file, properties()) == 1
            assert self.error(capsys).startswith(f"--cluster-id {NEW_CLUSTER}: this is the snapshot's own cluster; ")

    def test_no_id_of_a_cluster(
        self, tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = str(written(tmp_path))
        assert run(["snapshot", "restore", file, "-c", properties(), "--cluster-id", "new"]) == 1
        assert "'new' is not a UUID as Kafka writes it" in self.error(capsys)

    @pytest.mark.parametrize("position", [30, 1000, -10])
    def test_damage(
        self, position: int, tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = written(tmp_path / "backup")
        data = bytearray(file.read_bytes())
        data[position] ^= 1
        damaged = tmp_path / "damaged" / file.name
        damaged.parent.mkdir()
        damaged.write_bytes(data)
        assert restored(damaged, properties()) == 1
        assert self.error(capsys).startswith(f"{damaged}: ")
        cut = damaged.with_name(checkpoint_name(OffsetAndEpoch(499, 7)))
        cut.write_bytes(file.read_bytes()[:-FOOTER_BYTES])
        assert restored(cut, properties()) == 1
        assert "without its footer" in self.error(capsys)

    def test_a_name_that_does_not_tell_where_it_ends(
        self, tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = written(tmp_path).rename(tmp_path / "mine")
        assert restored(file, properties()) == 1
        assert (
            self.error(capsys)
            == f"{file}: neither its name nor {file}.properties gives its end offset: give --end-offset"
        )

    def test_an_end_that_contradicts_the_name(
        self, tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert restored(written(tmp_path), properties(), "--end-offset", "501") == 1
        assert self.error(capsys) == "--end-offset 501: the snapshot is 500@7"

    def test_the_first_voters_of_a_cluster(
        self, tmp_path: Path, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = written(tmp_path, records=(), end=OffsetAndEpoch(0, 0))
        assert restored(file, properties()) == 1
        assert "format a new cluster instead" in self.error(capsys)

    @pytest.mark.parametrize(
        ("version", "changes", "reason"),
        [
            (1, {"process.roles": "broker", "listeners": None}, "process.roles=broker: expected controller"),
            (
                1,
                {"controller.quorum.voters": "4@h:1"},
                "controller.quorum.voters=4@h:1: the snapshot has kraft.version 1",
            ),
            (
                0,
                {},
                "controller.quorum.voters=: the snapshot has kraft.version 0, which keeps the voters in the config",
            ),
            (0, {"controller.quorum.voters": "4@h:1,5@h:2"}, "controller.quorum.voters=4@h:1,5@h:2: the snapshot has"),
        ],
    )
    def test_a_node_that_does_not_fit(
        self,
        version: int,
        changes: dict[str, str | None],
        reason: str,
        tmp_path: Path,
        properties: Callable[..., str],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        file = written(tmp_path, ControlState(0, OLD_VOTERS if version else None, version))
        assert restored(file, properties(**changes)) == 1
        assert reason in self.error(capsys)


def test_the_idempotent_producers_are_known_in_the_new_cluster(tmp_path: Path, properties: Callable[..., str]) -> None:
    """A batch that one of them sends again is not taken in a second time."""
    producers = ProducerStates()
    producers.record(77, 3, 0, 490, 499, 1_700_000_000_000)
    state = ControlState(1_700_000_000_000, OLD_VOTERS, 1, encode_producer_snapshot(producers))
    assert restored(written(tmp_path / "backup", state), properties()) == 0
    restored_file = tmp_path / "node" / "__cluster_metadata-0" / checkpoint_name(END)
    assert check_snapshot(RealDisk(), str(restored_file), END).control_state.producers == state.producers


def test_a_name_of_its_own_and_where_it_ends(tmp_path: Path, properties: Callable[..., str]) -> None:
    file = written(tmp_path).rename(tmp_path / "mine")
    assert restored(file, properties(), "--end-offset", "500") == 0
    assert check_partition(RealDisk(), str(tmp_path / "node" / "__cluster_metadata-0")).log_end == END


def planned(disk: SimulatedDisk, config: NodeConfig, directory: str = "/backup") -> Restoration:
    return plan_restoration(
        disk,
        config,
        f"{directory}/{checkpoint_name(END)}",
        END,
        cluster_id=NEW_CLUSTER,
        directory_id=directory_id_from_text(OLD_CLUSTER),
        on_bytes=lambda _size: None,
    )


async def carried_out(disk: SimulatedDisk, config: NodeConfig, plan: Restoration) -> None:
    await restore(disk, config, plan, on_bytes=lambda _size: None, now_ms=0)


def test_a_disk_that_fails_leaves_what_is_not_formatted(tmp_path: Path, properties: Callable[..., str]) -> None:
    config, disk = parse_config_of(properties()), SimulatedDisk()
    data = written(tmp_path).read_bytes()
    disk.make_directory("/backup")
    disk.replace_now(f"/backup/{checkpoint_name(END)}", data)
    for operation in ("make_directory", "open", "append", "sync", "rename", "sync_directory"):
        disk.make_directory(f"/{operation}")
        there = parse_config_of(properties(**{"metadata.log.dir": f"/{operation}/node"}))

        plan = planned(disk, there)
        disk.fail(operation)
        with pytest.raises((StorageFailure, StorageError)):
            trio.run(carried_out, disk, there, plan)
        disk.clear_faults()
        assert not disk.exists(f"/{operation}/node/meta.properties")
    assert config.node_id == 4


def test_an_interrupted_attempt_is_repeated(tmp_path: Path, properties: Callable[..., str]) -> None:
    """Wherever its process was killed; and until then, the node does not start."""
    config = parse_config_of(properties(metadata_log_dir="/node"))
    data = written(tmp_path, records=RECORDS[:5]).read_bytes()
    calls = 0

    def attempt(disk: SimulatedDisk) -> None:
        trio.run(carried_out, disk, config, planned(disk, config))

    def is_dead_from(disk: SimulatedDisk, number: int) -> None:
        left = itertools.count(number, -1)

        def die(operation: str, path: str) -> None:
            nonlocal calls
            if next(left) <= 0:
                raise OSError(errno.EIO, "killed", path)
            calls += 1

        disk.hook = die

    states = set()
    for number in itertools.count():
        disk = SimulatedDisk()
        disk.make_directory("/backup")
        disk.replace_now(f"/backup/{checkpoint_name(END)}", data)
        is_dead_from(disk, number)
        try:
            attempt(disk)
            break
        except (KraftError, OSError):
            disk.hook = None
        disk.kill()
        is_formatted = disk.exists("/node/meta.properties")
        states.add(is_formatted)
        if not is_formatted:
            if disk.exists("/node/restoring"):
                with pytest.raises(StorageError, match="a restore was interrupted; restore the snapshot again"):
                    read_meta_properties(disk, "/node", 4)
            attempt(disk)
        with LockedDirectory.open(disk, "/node", 4, random.Random(1)):
            assert not disk.exists("/node/restoring"), "what is here now is nobody's leftover"
        assert check_partition(disk, "/node/__cluster_metadata-0").problems == []
    assert states == {False, True}
    assert calls > 100


def test_records_are_nobodys_leftovers(tmp_path: Path, properties: Callable[..., str]) -> None:
    """A restore writes none, so they are of a node that has run."""
    file = written(tmp_path / "backup")
    partition = tmp_path / "node" / "__cluster_metadata-0"
    partition.mkdir(parents=True)
    (tmp_path / "node" / RESTORING).touch()
    log = partition / "00000000000000000000.log"
    log.write_bytes(b"records")
    assert restored(file, properties()) == 1
    assert log.read_bytes() == b"records"
    log.write_bytes(b"")
    assert restored(file, properties()) == 0


def test_a_full_disk_is_told_from_a_failed_one(tmp_path: Path, properties: Callable[..., str]) -> None:
    config, disk = parse_config_of(properties(metadata_log_dir="/mount/node")), SimulatedDisk()
    disk.make_directory("/mount")
    disk.replace_now(f"/mount/{checkpoint_name(END)}", written(tmp_path).read_bytes())

    def attempt(operation: str, code: int) -> str:
        plan = planned(disk, config, "/mount")
        disk.fail(operation, name=".part", code=code)
        with pytest.raises(StorageFailure) as caught:
            trio.run(carried_out, disk, config, plan)
        return f"{caught.value.exit_code}: {caught.value}"

    full = attempt("append", errno.ENOSPC)
    assert full.startswith("4: /mount/node: not restored: ")
    assert full.endswith("; free space there, then restore again")
    assert attempt("append", errno.EIO).startswith("3: /mount/node: not restored: ")


def test_an_attempt_may_follow_one_that_could_not_write(tmp_path: Path, properties: Callable[..., str]) -> None:
    file = written(tmp_path / "backup")
    partition = tmp_path / "node" / "__cluster_metadata-0"
    partition.mkdir(parents=True)
    (tmp_path / "node" / ".lock").touch()
    (tmp_path / "node" / "lost+found").mkdir()
    assert restored(file, properties()) == 0
    assert restored(file, properties()) == 1


def test_what_follows_a_first_batch_with_other_records_moves_up(tmp_path: Path, properties: Callable[..., str]) -> None:
    """A writer that knows more control records than we do writes them there, too."""
    source = written(tmp_path / "source", records=RECORDS[:5]).read_bytes()
    first = peek_header(source)
    records = [NewRecord(r.value, r.key) for r in decode_records(source, 0, first)]
    unknown = NewRecord(b"x", struct.pack(">hh", 0, 99))
    longer = bytearray(encode_batch([*records, unknown], timestamp_ms=5, leader_epoch=END.epoch, control=True))
    rest = bytearray(source[first.size_in_bytes :])
    for position, header in list(iter_headers(rest)):
        patch_base_offset_and_epoch(rest, position, header.base_offset + 1, END.epoch)
    file = tmp_path / checkpoint_name(END)
    file.write_bytes(longer + rest)
    assert restored(file, properties()) == 0
    partition = tmp_path / "node" / "__cluster_metadata-0"
    assert check_partition(RealDisk(), str(partition)).problems == []
    assert records_in(partition / checkpoint_name(END)) == records_in(file)


def test_a_directory_that_somebody_else_has_filled_meanwhile(tmp_path: Path, properties: Callable[..., str]) -> None:
    config, file = parse_config_of(properties()), written(tmp_path)

    async def attempt() -> None:
        disk = RealDisk()
        directory_id = directory_id_from_text(OLD_CLUSTER)
        nothing: Callable[[int], None] = lambda _size: None  # noqa: E731
        plan = plan_restoration(
            disk, config, str(file), END, cluster_id=NEW_CLUSTER, directory_id=directory_id, on_bytes=nothing
        )
        (tmp_path / "node").mkdir()
        (tmp_path / "node" / "precious").touch()
        await restore(disk, config, plan, on_bytes=nothing, now_ms=0)

    with pytest.raises(StorageError, match="holds precious"):
        trio.run(attempt)
    assert contents(tmp_path / "node").keys() <= {"precious", ".lock"}
