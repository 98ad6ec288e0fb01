"""`kraft snapshot save`: where it may write, and what is left where it cannot.  What it copies: test_snapshot_saver."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraft_trio.cli import run
from kraft_trio.cli.snapshots import snapshot_save, snapshot_take
from kraft_trio.cli.snapshots.snapshot_save import note_origin
from kraft_trio.client.snapshot_saver import SavedSnapshot
from kraft_trio.errors import NetworkError, StorageFailure
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch
from kraft_trio.security.sasl_network import SaslNetwork
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.storage.snapshots.snapshot_reader import ControlState, SnapshotSummary


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.removeprefix("kraft: error: ").rstrip("\n")


def save(file: str) -> int:
    """Port 1: where a place is refused, nobody is asked."""
    return run(["snapshot", "save", "--bootstrap-controller", "127.0.0.1:1", file])


@pytest.mark.parametrize("is_directory", [False, True])
def test_what_has_the_name_of_the_note_is_not_overwritten(
    is_directory: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "mine.checkpoint.properties"
    if is_directory:
        taken.mkdir()
    else:
        taken.write_text("node.id=1")
    assert save(str(tmp_path / "mine.checkpoint")) == 1
    assert error_of(capsys) == f"{taken}: already exists and is not overwritten"
    assert list(tmp_path.iterdir()) == [taken]
    assert is_directory or taken.read_text() == "node.id=1"


def test_a_name_in_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert save(f"{tmp_path}/no/backup") == 1
    assert error_of(capsys) == f"{tmp_path}/no/backup: there is no directory {tmp_path}/no"


@pytest.mark.parametrize("end", ["", "/"])
def test_directory_that_is_not_there_is_not_made_a_file(
    end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = f"{tmp_path}/backups"
    assert save(place + end) == 1
    assert error_of(capsys).startswith(f"{place}{end}: there is no ")
    assert save(place) == 1
    assert error_of(capsys) == (
        f"{place}: there is no such directory; make it, or name a file that ends with .checkpoint: {place}.checkpoint"
    )
    assert list(tmp_path.iterdir()) == []


SECURED = """node.id=1
listeners=CLIENT://client:9092,CONTROLLER://controller:9093
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.controller.protocol=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="node" password="x" \\
  user_node="x";
metadata.log.dir=data
"""


@pytest.mark.parametrize("command", ["save", "take"])
def test_secured_nodes_are_asked_as_a_file_says(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A backup is made on a machine that has no node.  A node's own file leads to its listener for controllers."""
    asked: list[tuple[Sequence[Endpoint], str | None]] = []

    async def ask(nodes: Sequence[Endpoint], network: object, *rest: object) -> None:
        asked.append((nodes, network.login.username if isinstance(network, SaslNetwork) else None))
        raise NetworkError("asked")

    monkeypatch.setattr(snapshot_save, "_save", ask)
    monkeypatch.setattr(snapshot_take, "_take_all", ask)
    node, client = tmp_path / "node.properties", tmp_path / "client.properties"
    node.write_text(SECURED)
    login = SECURED[SECURED.index("sasl.jaas") : SECURED.index("metadata")].replace('"node"', '"backup"')
    client.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{login}")
    file = [str(tmp_path / "backup.checkpoint")] if command == "save" else []
    by_name = ["--bootstrap-controller", "a:1", "--command-config", str(client)]
    assert run(["snapshot", command, *by_name, *file]) == 1
    assert run(["snapshot", command, "-c", str(node), *file]) == 1
    assert asked == [((Endpoint("a", 1),), "backup"), ((Endpoint("controller", 9093),), "node")]
    capsys.readouterr()
    observer = SECURED.replace("node.id=1", "node.id=1\nprocess.roles=broker")
    node.write_text(observer.replace(",CONTROLLER://controller:9093", ""))
    assert run(["snapshot", command, "-c", str(node), *file]) == 1
    assert "listeners=CLIENT://client:9092: this node cannot be asked as it asks the others" in error_of(capsys)


@pytest.mark.parametrize(("code", "exit_code"), [(errno.ENOSPC, 4), (errno.EIO, 3)])
def test_without_its_note_a_snapshot_is_not_kept(code: int, exit_code: int) -> None:
    """The next attempt finds its place free."""
    disk = SimulatedDisk()
    disk.make_directory("/backup")
    disk.replace_now("/backup/mine", b"whole")
    summary = SnapshotSummary(OffsetAndEpoch(500, 7), 5, 3, 1, ControlState(0))
    disk.fail("append", name="mine.properties.tmp", code=code)
    with pytest.raises(StorageFailure, match=r"/backup/mine\.properties: cannot be written: ") as caught:
        note_origin(disk, SavedSnapshot("/backup/mine", None, summary))
    assert caught.value.exit_code == exit_code
    assert disk.list_directory("/backup") == []
