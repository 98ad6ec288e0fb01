"""`kraft log verify` and `kraft snapshot verify`: what they say of sound directories and of damaged ones."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kraft_trio import random_uuid
from kraft_trio.cli import run
from kraft_trio.cli.terminal import progress as progress_module
from kraft_trio.cli.terminal.progress import progress
from kraft_trio.protocol.producers import ProducerStates
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.directory.quorum_state import encode_quorum_state
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.segments.producer_snapshot import encode_producer_snapshot
from kraft_trio.storage.snapshots.snapshot_reader import ControlState
from tests.storage.support import KAFKAS_VOTERS, batch, kafkas_files, open_log, write_snapshot

SNAPSHOT = "00000000000000000005-0000000001.checkpoint"


@pytest.fixture
def kafkas(tmp_path: Path) -> Path:
    """A node's directory as Apache Kafka wrote it."""
    partition = tmp_path / "node" / "__cluster_metadata-0"
    partition.mkdir(parents=True)
    for name, content in kafkas_files("dynamic").items():
        (partition / name).write_bytes(content)
    return tmp_path / "node"


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)


def output(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    captured = capsys.readouterr()
    return captured.out.splitlines(), captured.err


def formatted(directory: Path, node_id: int, initial: str, cluster_id: str) -> str:
    """A node that was formatted with these initial controllers, and has not run."""
    file = directory / f"node-{node_id}.properties"
    file.write_text(
        f"node.id={node_id}\nlisteners=CONTROLLER://127.0.0.1:{node_id}\nmetadata.log.dir={directory}/node-{node_id}\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:1\n"
    )
    given = ["--initial-controllers", initial, "--unsafe-format-again"]
    assert run(["storage", "format", "-t", cluster_id, "-c", str(file), *given]) == 0
    return str(directory / f"node-{node_id}")


def test_lists_of_voters_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster_id, ids = random_uuid(), [[random_uuid() for _ in range(2)] for _ in range(2)]
    lists = [",".join(f"{node_id}@127.0.0.1:{node_id}:{ids[n][node_id - 1]}" for node_id in (1, 2)) for n in (0, 1)]
    one, same, other = (tmp_path / name for name in ("one", "same", "other"))
    for directory in (one, same, other):
        directory.mkdir()
    first = formatted(one, 1, lists[0], cluster_id)
    assert run(["log", "verify", first, formatted(same, 2, lists[0], cluster_id)]) == 0
    assert run(["log", "verify", first, formatted(other, 2, lists[1], cluster_id)]) == 1
    told = capsys.readouterr().out
    assert f"was formatted with the voters 1-{ids[0][0]}, 2-{ids[0][1]}; " in told
    assert f" with 1-{ids[1][0]}, 2-{ids[1][1]}" in told


@pytest.mark.parametrize(("others", "differs"), [((1, 2, 3), False), ((1, 2, 3, 4), False), ((3,), True)])
def test_static_voters_that_differ(
    kafkas: Path, tmp_path: Path, others: tuple[int, ...], differs: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(kafkas, copy)
    for directory, ids in ((kafkas, (1, 2, 3)), (copy, others)):
        state = encode_quorum_state(ElectionState(1), 0, VoterSet(Voter(ReplicaKey(id)) for id in ids))
        (directory / "__cluster_metadata-0" / "quorum-state").write_bytes(state)
    assert run(["log", "verify", str(kafkas), str(copy)]) == differs
    told = f"difference: quorum-state: the static voters are 1, 2, 3 in {kafkas}/__cluster_metadata-0; 3 in {copy}"
    assert (told in capsys.readouterr().out) == differs


class TestLogVerify:
    @pytest.mark.parametrize("below", [".", "__cluster_metadata-0"])
    def test_a_sound_directory(self, kafkas: Path, below: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["log", "verify", str(kafkas / below)]) == 0
        lines, error = output(capsys)
        assert lines[0].endswith("/__cluster_metadata-0")
        assert lines[1:] == [
            "  log: offsets 0 to 5@1, 2 batches, 1 segment, 258 bytes; kraft.version 1",
            "  snapshot 0@0: 0 records, 2 batches, 241 bytes",
            "  snapshot 5@1: 1 record, 3 batches, 314 bytes",
            "  quorum-state: epoch 1",
        ]
        assert error == ""

    def test_a_damaged_one(self, kafkas: Path, capsys: pytest.CaptureFixture[str]) -> None:
        partition = kafkas / "__cluster_metadata-0"
        flip(partition / f"{0:020d}.log", 200)
        flip(partition / SNAPSHOT, 200)
        assert run(["log", "verify", str(kafkas)]) == 1
        lines, error = output(capsys)
        problems = [line for line in lines if line.startswith("  problem: ")]
        assert len(problems) == 3
        assert f"{SNAPSHOT}: position 166: batch at offset 3: CRC is 0x" in problems[0]
        assert f"{0:020d}.log: position 174: batch at offset 3: CRC is 0x" in problems[1]
        assert error.startswith("kraft: error: ")
        assert error.endswith("(and 2 more)\n")

    def test_as_json(self, kafkas: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (kafkas / "__cluster_metadata-0" / "quorum-state").unlink()
        assert run(["log", "verify", "--json", str(kafkas)]) == 1
        lines, _ = output(capsys)
        (report,) = map(json.loads, lines)
        assert report["logEnd"] == {"offset": 5, "epoch": 1}
        assert [snapshot["snapshotId"]["offset"] for snapshot in report["snapshots"]] == [0, 5]
        assert "quorum-state: missing" in report["problems"][0]

    async def test_replicas_are_compared(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        disk = RealDisk()
        for replica, values in (("1", "abc"), ("2", "ab"), ("3", "axc")):
            log = open_log(disk, str(tmp_path / replica / "t-0"))
            for value in values:
                log.append_as_leader(batch(value.encode()), 1)
            await log.close()
            (tmp_path / replica / "t-0" / "quorum-state").write_bytes(kafkas_files("static")["quorum-state"])
        disk.close()
        replicas = [str(tmp_path / replica) for replica in "123"]
        assert run(["log", "verify", *replicas[:2]]) == 0
        assert output(capsys)[0][-1] == "offsets 0 to 2 are the same in all 2"
        assert run(["log", "verify", *replicas]) == 1
        lines, error = output(capsys)
        difference = f"offset 1, which no snapshot covers: it may be uncommitted on one of them: {tmp_path}/1/t-0/"
        assert lines[-1].startswith(f"difference: {difference}")
        assert f"{tmp_path}/3/t-0/" in lines[-1]
        assert error.startswith(f"kraft: error: {difference}")
        assert run(["log", "verify", "--json", *replicas]) == 1
        assert len(json.loads(output(capsys)[0][-1])["differences"]) == 1

    def test_a_controllers_directory_has_more_beside_the_topic(
        self, kafkas: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (kafkas / "bootstrap.checkpoint").write_bytes(b"")
        assert run(["log", "verify", str(kafkas)]) == 0
        assert output(capsys)[0][0].endswith("/__cluster_metadata-0")

    def test_nothing_to_check_is_an_error(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
        assert run(["log", "verify", str(tmp_path)]) == 1
        assert output(capsys)[1].startswith(f"kraft: error: {tmp_path}: nothing to check: ")

    def test_a_directory_without_a_log(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["log", "verify", str(tmp_path)]) == 1
        assert output(capsys)[1] == (
            f"kraft: error: {tmp_path}: expected a topic's directory, or a directory with one of them; found none\n"
        )
        assert run(["log", "verify"]) == 2


class TestSnapshotVerify:
    def test_a_whole_one(self, kafkas: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = kafkas / "__cluster_metadata-0" / SNAPSHOT
        assert run(["snapshot", "verify", str(path)]) == 0
        assert output(capsys)[0] == [
            f"{path}: whole",
            "  id: 5@1",
            "  1 record, 3 batches, 314 bytes",
            "  last record it covers: 2026-11-21T07:21:42.275+00:00",
            "  kraft.version: 1",
            "  voters: 1-b8tRS7h4TJ2Vt43Dp85v2A",
        ]

    def test_a_copy_under_another_name(self, kafkas: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = kafkas / "backup"
        path.write_bytes((kafkas / "__cluster_metadata-0" / SNAPSHOT).read_bytes())
        assert run(["snapshot", "verify", str(path)]) == 0
        assert output(capsys)[0][1] == "  id: its epoch is 1; the file name does not give its end offset"

    async def test_one_with_producers_and_no_time(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        producers = ProducerStates()
        for producer_id in (7, 8):
            producers.record(producer_id, 0, 0, producer_id, producer_id, 1000)
        disk = RealDisk()
        state = ControlState(-1, KAFKAS_VOTERS, 1, encode_producer_snapshot(producers))
        await write_snapshot(disk, OffsetAndEpoch(5, 1), state, [], str(tmp_path))
        disk.close()
        assert run(["snapshot", "verify", str(tmp_path / SNAPSHOT)]) == 0
        lines = output(capsys)[0]
        assert "  last record it covers: of no known time" in lines
        assert "  idempotent producers: 2" in lines

    def test_damaged_ones(self, kafkas: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = kafkas / "__cluster_metadata-0" / SNAPSHOT
        whole = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(whole[:-75])
        assert run(["snapshot", "verify", str(path)]) == 1
        assert output(capsys)[1] == f"kraft: error: {path}: the snapshot ends at position 239 without its footer\n"
        other = path.with_name("00000000000000000005-0000000002.checkpoint")
        other.write_bytes(whole)
        assert run(["snapshot", "verify", str(other)]) == 1
        assert "batch at position 0: epoch 1, expected that of the snapshot's id, 2" in output(capsys)[1]
        garbage = kafkas / "garbage"
        garbage.write_bytes(b"no snapshot at all, but long enough for the header of a batch of records")
        assert run(["snapshot", "verify", str(garbage)]) == 1
        assert output(capsys)[1].startswith(f"kraft: error: {garbage}: batch at position 0: magic ")


class TestProgress:
    """A quick check shows no progress bar; a longer one does, if the output is a terminal."""

    @pytest.fixture
    def seconds(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        now = [0.0]
        monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
        return now

    @pytest.fixture
    def terminal(self, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        stream = Terminal()

        def console(**_options: Any) -> Console:
            return Console(file=stream, force_terminal=True, width=100)

        monkeypatch.setattr(progress_module, "Console", console)
        return stream

    def test_a_quick_thing_shows_nothing(self, seconds: list[float], terminal: io.StringIO) -> None:
        with progress("checking", 100) as bar:
            seconds[0] = 0.9
            bar.advance(50)
        assert terminal.getvalue() == ""

    def test_a_long_one_shows_how_far_it_is(self, seconds: list[float], terminal: io.StringIO) -> None:
        with progress("checking", 100_000) as bar:
            bar.advance(50_000)
            seconds[0] = 1.1
            bar.advance(25_000)
        assert "checking" in terminal.getvalue()
        assert "75.0/100.0 kB" in terminal.getvalue()

    def test_without_a_terminal_nothing_is_shown(
        self, seconds: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        with progress("checking", 100) as bar:
            seconds[0] = 5.0
            bar.advance(50)
        assert capsys.readouterr().err == ""
