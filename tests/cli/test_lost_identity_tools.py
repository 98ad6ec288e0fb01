"""What the tools say of a directory that has lost meta.properties, or the directory id in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.ports import free_ports
from kraft_trio import NodeConfig, format_node, random_uuid
from kraft_trio.cli import run
from kraft_trio.cli.terminal.exit_codes import ExitCode
from kraft_trio.protocol.types import directory_id_to_text
from tests.storage.support import DIRECTORY_ID, kafkas_files

LINE = f"directory.id={directory_id_to_text(DIRECTORY_ID)}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The configuration of voter 1, whose partition Kafka wrote, and whose meta.properties has no directory id."""
    [port] = free_ports(1)
    keys = {
        "node.id": "1",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
        "metadata.log.dir": str(tmp_path / "node"),
    }
    file = tmp_path / "node.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    format_node(NodeConfig.from_mapping(keys), random_uuid())
    for name, content in kafkas_files("dynamic").items():
        (tmp_path / "node" / "__cluster_metadata-0" / name).write_bytes(content)
    meta = tmp_path / "node" / "meta.properties"
    meta.write_text("".join(line for line in meta.read_text().splitlines(True) if "directory.id" not in line))
    return file


COMMANDS = [
    ["storage", "info", "-c"],
    ["storage", "recover", "--unsafe-only-voter", "-c"],
    ["storage", "recover", "--unsafe-epoch", "1", "-c"],
    ["metadata-quorum", "--timeout-ms", "100", "add-controller", "-c"],
    ["server", "start", "-c"],
]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_tool_prints_the_line(file: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, str(file)]) == (ExitCode.DIRECTORY if command[0] == "server" else 1)
    assert f"meta.properties: directory.id is not there, but {file.parent}/node/__cluster_metadata-0/" in (
        told := capsys.readouterr().err
    )
    assert f"add the line {LINE};" in told
    assert LINE not in (file.parent / "node" / "meta.properties").read_text()


@pytest.mark.parametrize("content", [b"", bytes(107)])
@pytest.mark.parametrize("command", [*COMMANDS, ["storage", "format", "-N", "-t", random_uuid(), "-c"]])
def test_each_tool_says_how_to_write_the_file_again(
    file: Path, command: list[str], content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "node" / "meta.properties").write_bytes(content)
    assert run([*command, str(file)]) == (ExitCode.DIRECTORY if command[0] == "server" else 1)
    told = capsys.readouterr().err
    assert "write it again: version=1, node.id=1, cluster.id=… (as on the other nodes), " + LINE in told
    assert "\\x00" not in told
    assert "\0" not in told
    assert (file.parent / "node" / "meta.properties").read_bytes() == content


def test_explain_prints_the_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metadata-quorum", "--timeout-ms", "100", "explain", "-c", str(file), "--json"]) == 1
    [told] = [one["text"] for one in json.loads(capsys.readouterr().out)["findings"] if one["code"] == "directory"]
    assert f"add the line {LINE};" in told
