"""`kraft storage recover` finds a process that uses the directory, also without its lock."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from harness.ports import free_ports
from kraft_trio import NodeConfig, VoterSet, first_voter, format_node, open_node, random_uuid
from kraft_trio.cli import run
from kraft_trio.cli.directory.directory_users import refuse_used
from kraft_trio.errors import AlreadyLockedError

PROGRAM = "import sys; file = open(sys.argv[1], sys.argv[2]); print('open', flush=True); sys.stdin.read()"


@contextmanager
def opened(path: Path, mode: str) -> Iterator[int]:
    """By a process with the id that is yielded."""
    command = [sys.executable, "-c", PROGRAM, str(path), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process.pid
        process.stdin.close()


@pytest.mark.parametrize("mode", ["r+b", "ab"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_writer_is_named(tmp_path: Path, mode: str, is_deleted: bool) -> None:
    path = tmp_path / "partition" / "a.log"
    path.parent.mkdir()
    path.touch()
    with opened(path, mode) as process_id:
        if is_deleted:
            path.unlink()
        with pytest.raises(AlreadyLockedError, match=re.escape(f"{path}: process {process_id} (python")):
            refuse_used(str(tmp_path))
    refuse_used(str(tmp_path))


def test_a_directory_is_not_refused_for_readers_and_neighbours(tmp_path: Path) -> None:
    for name in ("node", "node-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.log").touch()
    with opened(tmp_path / "node" / "a.log", "rb"), opened(tmp_path / "node-2" / "a.log", "r+b"):
        refuse_used(str(tmp_path / "node"))


def test_directory_is_told_by_any_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "a.log").touch()
    (tmp_path / "link").symlink_to(tmp_path / "node")
    with opened(tmp_path / "node" / "a.log", "r+b"), pytest.raises(AlreadyLockedError):
        refuse_used(str(tmp_path / "link"))


async def appended(config: NodeConfig) -> None:
    async with open_node(config) as node:
        await node.append([b"value"])


@pytest.mark.parametrize("how", [["--unsafe-endpoints", "1@CONTROLLER://127.0.0.1:9"], ["--unsafe-epoch", "2"]])
def test_nothing_is_recovered_below_a_process(
    tmp_path: Path, how: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody has removed the lock, which seemed to be left over."""
    [port] = free_ports(1)
    file = tmp_path / "node.properties"
    file.write_text(f"node.id=1\nlisteners=CONTROLLER://127.0.0.1:{port}\nmetadata.log.dir={tmp_path}/node\n")
    config = NodeConfig.from_file(file)
    cluster_id = random_uuid()
    format_node(config, cluster_id, VoterSet([first_voter(config)]))
    trio.run(appended, config)
    [state] = (tmp_path / "node").rglob("quorum-state")
    [log] = (tmp_path / "node").rglob("*.log")
    fields = json.loads(state.read_bytes().splitlines()[0])
    state.write_text(json.dumps({**fields, "leaderId": -1, "leaderEpoch": 9, "votedId": -1}) + "\n")
    (tmp_path / "node" / ".lock").unlink()
    before = {path: path.read_bytes() for path in (log, state)}
    command = ["storage", "recover", "-c", str(file), "--cluster-id", cluster_id, *how]
    with opened(log, "r+b") as process_id:
        assert run(command) == 1
        assert f"{log}: process {process_id} (" in capsys.readouterr().err
        assert {path: path.read_bytes() for path in before} == before
    assert run(command) == 0
