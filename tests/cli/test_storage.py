"""`kraft storage`: what format writes, what it refuses without writing anything, and what info says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from kraft_trio.cli import run
from kraft_trio.protocol.types import Endpoint, directory_id_from_text
from kraft_trio.storage.batches.control_records import KRaftVersion, SnapshotFooter, SnapshotHeader, VotersRecord
from kraft_trio.storage.directory.meta_properties import MetaProperties, decode_meta_properties
from kraft_trio.storage.disk.partition_files import BOOTSTRAP_CHECKPOINT
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint
from tests.storage.support import kafkas_files

CLUSTER_ID = "fMCL8kv1SWm87L_Md-I2hg"
DIRECTORY_IDS = ("b8tRS7h4TJ2Vt43Dp85v2A", "ILZ5MPTeRWakmJu99uBJCA", "3Db5QLSqSZieL3rJBUUegA")
INITIAL = ",".join(f"{index}@host-{index}:9093:{id}" for index, id in enumerate(DIRECTORY_IDS, start=1))
STATIC = {"controller.quorum.voters": "1@host-1:9093,2@host-2:9093"}
OBSERVER = {"process.roles": "broker", "listeners": "CLIENT://host-1:9092"}
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


@attrs.frozen
class Place:
    """A configuration file and the directory it names, which is not there yet."""

    directory: Path
    config: Path

    def format(self, *options: str, cluster_id: str = CLUSTER_ID) -> int:
        return run(["storage", "format", "-t", cluster_id, "-c", str(self.config), *options])

    def info(self) -> int:
        return run(["storage", "info", "-c", str(self.config)])

    def meta_properties(self) -> MetaProperties:
        path = self.directory / "meta.properties"
        return decode_meta_properties(str(path), path.read_bytes())

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.directory)): path.read_bytes()
            for path in self.directory.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Place]:
    def make(**changes: str) -> Place:
        properties = {
            "node.id": "1",
            "listeners": "CONTROLLER://host-1:9093",
            "controller.quorum.bootstrap.servers": "host-1:9093",
            "metadata.log.dir": str(tmp_path / "data"),
            **changes,
        }
        config = tmp_path / "node.properties"
        config.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        return Place(Path(properties["metadata.log.dir"]), config)

    return make


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of error; warnings before it are left out."""
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("kraft: warning: ")]
    assert len(lines) == 1
    assert lines[0].startswith("kraft: error: ")
    return lines[0]


class TestRandomUuid:
    def test_each_is_new_and_fit_for_a_command_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        for _ in range(100):
            assert run(["storage", "random-uuid"]) == 0
        texts = capsys.readouterr().out.split()
        assert len(set(texts)) == 100
        assert all(directory_id_from_text(text).version == 4 and not text.startswith("-") for text in texts)


class TestFormat:
    def test_standalone(self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]) -> None:
        here = place(
            **{"listeners": "CONTROLLER://host-1:9093,B://host-1:9094", "controller.listener.names": "CONTROLLER,B"}
        )
        assert here.format("--standalone") == 0
        meta = here.meta_properties()
        assert (meta.cluster_id, meta.node_id) == (CLUSTER_ID, 1)
        header, version, voters, footer = read_checkpoint(here.files()[CHECKPOINT])
        assert isinstance(header, SnapshotHeader)
        assert version == KRaftVersion(1)
        assert isinstance(footer, SnapshotFooter)
        assert isinstance(voters, VotersRecord)
        (voter,) = voters.voters
        assert (voter.key.id, voter.key.directory_id) == (1, meta.directory_id)
        assert list(voter.endpoints) == [("CONTROLLER", Endpoint("host-1", 9093)), ("B", Endpoint("host-1", 9094))]
        assert (voter.kraft_versions.minimum, voter.kraft_versions.maximum) == (0, 1)
        out = capsys.readouterr().out
        assert re.fullmatch(
            rf"Formatted {here.directory} with kraft.version 1: "
            rf"cluster id {CLUSTER_ID}, node id 1, directory id \S{{22}}\n",
            out,
        )
        assert (here.directory / CHECKPOINT).stat().st_mode & 0o777 == 0o400

    def test_initial_controllers(self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]) -> None:
        here = place()
        assert here.format("--initial-controllers", INITIAL) == 0
        assert here.meta_properties().directory_id == directory_id_from_text(DIRECTORY_IDS[0])
        _, _, voters, _ = read_checkpoint(here.files()[CHECKPOINT])
        assert isinstance(voters, VotersRecord)
        assert [(voter.key.id, voter.key.directory_id) for voter in voters.voters] == [
            (index, directory_id_from_text(id)) for index, id in enumerate(DIRECTORY_IDS, start=1)
        ]
        assert voters.voters.get(2).endpoints.get("CONTROLLER") == Endpoint("host-2", 9093)  # type: ignore[union-attr]
        assert "warning" not in capsys.readouterr().err

    def test_an_unadvertised_endpoint_is_warned_about(
        self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert place(listeners="CONTROLLER://alias:9093").format("-I", INITIAL) == 0
        assert (
            "kraft: warning: --initial-controllers has this node at host-1:9093, "
            "but it advertises CONTROLLER://alias:9093\n"
        ) in capsys.readouterr().err

    def test_static_voters_are_checked_alike(
        self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]
    ) -> None:
        static = {**STATIC, "controller.quorum.bootstrap.servers": ""}
        here = place(**static, listeners="CONTROLLER://host-1:9999")
        assert here.format() == 1
        assert (
            "controller.quorum.voters has this node at host-1:9093, but it advertises CONTROLLER://host-1:9999: "
            "the other voters could not reach it"
        ) in error_of(capsys)
        assert not here.directory.exists()
        assert place(**static, listeners="CONTROLLER://alias:9093").format() == 0
        assert "controller.quorum.voters has this node at host-1:9093, but it adv" in capsys.readouterr().err

    def test_a_port_on_which_this_node_does_not_listen_is_refused(
        self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]
    ) -> None:
        here = place(listeners="CONTROLLER://host-1:9999")
        assert here.format("-I", INITIAL) == 1
        assert "at host-1:9093, but it advertises CONTROLLER://host-1:9999: the other voters" in error_of(capsys)
        assert not here.directory.exists()

    @pytest.mark.parametrize(
        ("changes", "options", "how"),
        [
            ({}, ["--no-initial-controllers"], "to join a quorum"),
            ({}, ["-N", "--feature", "kraft.version=0"], "to join a quorum"),
            (STATIC, [], "with kraft.version 0"),
            (STATIC, ["--feature", "kraft.version=0"], "with kraft.version 0"),
            (STATIC, ["--feature", "kraft.version=0", "--release-version", "4.1"], "with kraft.version 0"),
            ({}, ["-N", "-r", "4.1", "-f", "kraft.version=1"], "to join a quorum"),
            (OBSERVER, [], "to join a quorum"),
            (OBSERVER, ["-N"], "to join a quorum"),
        ],
    )
    def test_without_first_voters_there_is_no_checkpoint(
        self,
        place: Callable[..., Place],
        capsys: pytest.CaptureFixture[str],
        changes: dict[str, str],
        options: list[str],
        how: str,
    ) -> None:
        here = place(**changes)
        assert here.format(*options) == 0
        assert set(here.files()) == {"meta.properties", ".lock"}
        assert f" {how}: cluster id " in capsys.readouterr().out

    def test_the_topic_names_the_partitions_directory(self, place: Callable[..., Place]) -> None:
        here = place(**{"kraft.topic.name": "events"})
        assert here.format("-s") == 0
        assert (here.directory / "events-0").is_dir()

    def test_an_interrupted_format_is_taken_up_again(self, place: Callable[..., Place]) -> None:
        here = place()
        assert here.format("-s") == 0
        (here.directory / "meta.properties").unlink()
        assert here.format("-s") == 0
        _, _, voters, _ = read_checkpoint(here.files()[CHECKPOINT])
        assert isinstance(voters, VotersRecord)
        assert next(iter(voters.voters)).key.directory_id == here.meta_properties().directory_id


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "options", "message"),
        [
            ({}, [], "one of --standalone, --initial-controllers and --no-initial-controllers must select"),
            ({}, ["-s", "-I", INITIAL], "--standalone and --initial-controllers exclude each other"),
            ({}, ["-s", "-N"], "--standalone and --no-initial-controllers exclude each other"),
            ({}, ["-I", INITIAL, "-N"], "--initial-controllers and --no-initial-controllers exclude each other"),
            (STATIC, ["-s"], "--standalone excludes controller.quorum.voters, which is set"),
            (STATIC, ["-N"], "--no-initial-controllers excludes controller.quorum.voters"),
            (OBSERVER, ["-s"], "--standalone needs a node with the controller role; process.roles=broker"),
            (OBSERVER, ["-I", INITIAL], "--initial-controllers needs a node with the controller role"),
            ({"node.id": "4"}, ["-I", INITIAL], "names 1, 2, 3, but not this node: node.id=4"),
            ({}, ["-I", "1@host-1:9093"], "'1@host-1:9093' is not id@host:port:directory-id: '9093' is not"),
            ({}, ["-I", "1"], "'1' is not id@host:port:directory-id"),
            ({}, ["-I", ""], "'' is not id@host:port:directory-id"),
            ({}, ["-I", f"x@h:1:{DIRECTORY_IDS[0]}"], "'x' is not a replica id"),
            ({}, ["-I", f"1@h:0:{DIRECTORY_IDS[0]}"], "the port is '0'"),
            ({}, ["-I", f"1@h:1:{DIRECTORY_IDS[0][:-1]}="], "is not a UUID as Kafka writes it"),
            ({}, ["-I", "1@h:1:AAAAAAAAAAAAAAAAAAAAYw"], "is among the first 100 UUIDs, which are reserved"),
            ({}, ["-I", f"1@h:1:{DIRECTORY_IDS[0]},1@h:2:{DIRECTORY_IDS[1]}"], "two controllers have the same id"),
            (
                {},
                ["-I", f"1@h:1:{DIRECTORY_IDS[0]},2@h:2:{DIRECTORY_IDS[0]}"],
                "two controllers have the same directory id",
            ),
            (
                {},
                ["-I", f"1@h:1:{DIRECTORY_IDS[0]},2@h:1:{DIRECTORY_IDS[1]}"],
                "two controllers have the same endpoint",
            ),
            ({}, ["-s", "-f", "kraft.version=0"], "kraft.version=0: --standalone needs kraft.version 1"),
            ({}, ["-s", "-f", "kraft.version=2"], "--feature kraft.version=2: expected kraft.version=0 to 1"),
            ({}, ["-s", "-f", "kraft.version"], "--feature kraft.version: expected kraft.version=0 to 1"),
            ({}, ["-s", "-f", "metadata.version=1"], "as in --release-version 4.4-IV2"),
            ({}, ["-s", "-r", "3.8"], "kraft.version=0: --standalone needs kraft.version 1"),
            ({}, ["-s", "-r", "2.8"], "--release-version 2.8: expected a release of Kafka from 3.0 on"),
            ({}, ["-s", "-r", "4"], "--release-version 4: expected a release of Kafka from 3.0 on"),
            ({}, ["-s", "-r", "3.8", "-f", "kraft.version=1"], "--release-version 3.8 has no kraft.version above 0"),
            ({}, ["-s", "-r", "4.1", "-f", "kraft.version=0"], "kraft.version=0: --standalone needs kraft.version 1"),
            ({}, ["-s", "-f", "kraft.version=0", "-f", "kraft.version=1"], "given twice, first as kraft.version=0"),
            ({}, ["-s", "-f", "kraft.version=1", "-f", "kraft.version=1"], "given twice, first as kraft.version=1"),
            ({}, ["-s", "-f", "group.version=1", "-f", "kraft.version=1"], "the only feature here is kraft.version"),
            ({}, ["-s", "-f", "kraft.version=1", "-f", "group.version=1"], "the only feature here is kraft.version"),
            (STATIC, ["-f", "kraft.version=1"], "controller.quorum.voters names static voters, kraft.version 0"),
            ({"node.id": "-1"}, ["-s"], "node.id=-1; expected a whole number"),
        ],
    )
    def test_nothing_is_written(
        self,
        place: Callable[..., Place],
        capsys: pytest.CaptureFixture[str],
        changes: dict[str, str],
        options: list[str],
        message: str,
    ) -> None:
        here = place(**changes)
        assert here.format(*options) == 1
        assert message in error_of(capsys)
        assert not here.directory.exists()

    @pytest.mark.parametrize("cluster_id", ["abc", "", "fMCL8kv1SWm87L.Md-I2hg", "fMCL8kv1SWm87L_Md-I2hg=="])
    def test_a_cluster_id_that_is_no_uuid(
        self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str], cluster_id: str
    ) -> None:
        here = place()
        assert here.format("-s", cluster_id=cluster_id) == 1
        assert f"--cluster-id {cluster_id!r} is not a UUID" in error_of(capsys)
        assert not here.directory.exists()

    def test_a_second_time(self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]) -> None:
        here = place()
        assert here.format("-s") == 0
        before = here.files()
        assert here.format("-s") == 1
        assert error_of(capsys).endswith("already formatted (--ignore-formatted leaves it as it is)")
        assert here.format("-s", "--ignore-formatted") == 0
        assert capsys.readouterr().out.endswith(f"Already formatted: {here.directory}\n")
        assert here.files() == before

    @pytest.mark.parametrize("options", [["-s"], ["-s", "-g"]])
    def test_another_nodes_or_clusters_directory(
        self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str], options: list[str]
    ) -> None:
        here = place()
        assert here.format("-s") == 0
        before = here.files()
        assert here.format(*options, cluster_id=DIRECTORY_IDS[0]) == 1
        assert f"cluster.id={CLUSTER_ID}, but --cluster-id is {DIRECTORY_IDS[0]}" in error_of(capsys)
        assert place(**{"node.id": "2"}).format(*options) == 1
        assert "node.id=1, but node.id=2 is configured" in error_of(capsys)
        assert here.files() == before

    def test_a_log_without_an_identity_is_not_taken_over(
        self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]
    ) -> None:
        here = place()
        partition = here.directory / "__cluster_metadata-0"
        partition.mkdir(parents=True)
        (partition / "00000000000000000000.log").write_bytes(b"data")
        assert here.format("-s") == 1
        assert "holds 00000000000000000000.log, but" in error_of(capsys)
        assert set(here.files()) == {"__cluster_metadata-0/00000000000000000000.log"}

    def test_an_interrupted_standalone_leaves_no_trace(
        self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]
    ) -> None:
        here = place()
        assert here.format("-s") == 0
        (here.directory / "meta.properties").unlink()
        assert here.format("-N") == 1
        assert "holds 00000000000000000000-0000000000.checkpoint, but" in error_of(capsys)

    def test_a_directory_that_cannot_be_made(
        self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        assert place(**{"metadata.log.dir": str(tmp_path / "no" / "data")}).format("-s") == 1
        assert f"cannot be formatted: there is no directory {tmp_path / 'no'}" in error_of(capsys)
        (tmp_path / "file").write_bytes(b"")
        assert place(**{"metadata.log.dir": str(tmp_path / "file")}).format("-s") == 1
        assert f"{tmp_path / 'file'}" in error_of(capsys)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_read_only_directory(self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]) -> None:
        here = place()
        here.directory.mkdir(mode=0o500)
        assert here.format("-s") == 1
        assert "Permission denied" in error_of(capsys)

    def test_a_read_only_file_system(
        self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_arguments: object, **_options: object) -> None:
            raise OSError(30, "Read-only file system")

        here = place()
        monkeypatch.setattr("kraft_trio.storage.disk.real_disk.RealDisk.make_directory", refuse)
        assert here.format("-s") == 1
        assert error_of(capsys) == f"kraft: error: {here.directory}: cannot be formatted: Read-only file system"


class TestInfo:
    def test_a_formatted_directory(self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]) -> None:
        here = place()
        assert here.format("-I", INITIAL) == 0
        (here.directory / "__cluster_metadata-0" / "quorum-state").write_text(
            '{"leaderId":2,"leaderEpoch":4,"votedId":2,"votedDirectoryId":"ILZ5MPTeRWakmJu99uBJCA","data_version":1}'
        )
        capsys.readouterr()
        assert here.info() == 0
        assert capsys.readouterr().out.splitlines() == [
            "Found log directory:",
            f"  {here.directory}",
            "",
            f"Found metadata: {{cluster.id={CLUSTER_ID}, directory.id={DIRECTORY_IDS[0]}, node.id=1, version=1}}",
            f"Newest snapshot: 0@0, {len(here.files()[CHECKPOINT])} bytes",
            "Snapshot's kraft.version: 1",
            f"Snapshot's voters: {', '.join(f'{index}-{id}' for index, id in enumerate(DIRECTORY_IDS, start=1))}",
            "Quorum state: epoch 4, leader 2, vote 2-ILZ5MPTeRWakmJu99uBJCA",
        ]

    def test_snapshots_and_segments(self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]) -> None:
        here = place()
        assert here.format("-I", INITIAL) == 0
        for name, content in kafkas_files("dynamic").items():
            if name != BOOTSTRAP_CHECKPOINT:
                (here.directory / "__cluster_metadata-0" / name).write_bytes(content)
        capsys.readouterr()
        assert here.info() == 0
        lines = capsys.readouterr().out.splitlines()
        assert {
            "Newest snapshot: 5@1, 314 bytes",
            f"Older snapshots: 0@0, {len(here.files()[CHECKPOINT])} bytes",
            "Log segments: 1, from offset 0, 258 bytes",
        } <= set(lines)

    def test_problems(self, place: Callable[..., Place], capsys: pytest.CaptureFixture[str]) -> None:
        here = place()

        def problem() -> str:
            assert here.info() == 1
            captured = capsys.readouterr()
            lines = captured.out.splitlines()
            text = lines[lines.index("Found problem:") + 1].strip()
            assert captured.err == f"kraft: error: {text}\n"
            return text

        assert problem() == f"{here.directory}: there is no such directory"
        here.directory.mkdir()
        assert problem() == f"{here.directory}: not formatted"
        (here.directory / "meta.properties").write_text("version=1\nnode.id=x\ncluster.id=c\n")
        assert "node.id=x" in problem()
        (here.directory / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=c\n")
        assert problem() == f"{here.directory}: formatted for node 2, not for node.id=1"
        (here.directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
        partition = here.directory / "__cluster_metadata-0"
        partition.mkdir()
        (partition / "quorum-state").write_text("{")
        assert "quorum-state: not a line of JSON" in problem()
        (partition / "quorum-state").unlink()
        (partition / "00000000000000000000-0000000000.checkpoint").write_bytes(bytes(70))
        assert "00000000000000000000-0000000000.checkpoint: 70 zero bytes" in problem()

    def test_info_changes_nothing(self, place: Callable[..., Place]) -> None:
        here = place()
        assert here.format("-s") == 0
        before = here.files()
        assert here.info() == 0
        assert here.files() == before
