"""`kraft server start`: what keeps a node from starting is one line; a node serves until it is told to stop."""

from __future__ import annotations

import json
import logging
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from harness.ports import free_ports
from harness.waiting import WAIT_SECONDS
from kraft_trio.cli import run
from kraft_trio.cli.serving import server
from kraft_trio.cli.serving.logging import configure_logging
from kraft_trio.cli.terminal.config_option import parse_overrides
from kraft_trio.cli.terminal.exit_codes import ExitCode
from kraft_trio.client.log_client import LogClient
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from kraft_trio.tracing.files import open_trace
from kraft_trio.tracing.node_trace import node_trace

CLUSTER_ID = "fMCL8kv1SWm87L_Md-I2hg"


@pytest.fixture
def properties(tmp_path: Path) -> Callable[..., str]:
    def write(port: int = 9093, **changes: str) -> str:
        lines = {
            "node.id": "1",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
            "metadata.log.dir": str(tmp_path / "data"),
            **changes,
        }
        path = tmp_path / "node.properties"
        path.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
        return str(path)

    return write


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class TestRefusals:
    def test_a_wrong_value(self, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
        path = properties(**{"node.id": "x"})
        assert run(["server", "start", "-c", path]) == ExitCode.CONFIGURATION
        assert capsys.readouterr().err.startswith(f"kraft: error: {path}: node.id=x; expected a whole number")

    def test_a_wrong_override(self, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
        command = ["server", "start", "-c", properties()]
        assert run([*command, "--override", "node.id=x"]) == ExitCode.CONFIGURATION
        assert "node.id=x; expected" in capsys.readouterr().err
        assert run([*command, "--override", "node.id"]) == ExitCode.CONFIGURATION
        assert capsys.readouterr().err == "kraft: error: --override node.id: expected key=value\n"

    def test_an_unknown_key_is_warned_about(
        self, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = properties(**{"node.idd": "1"})
        assert run(["server", "start", "-c", path]) == 1
        warning, error = capsys.readouterr().err.splitlines()
        assert warning == f"kraft: warning: {path}: node.idd: unknown key, ignored; the nearest known one is node.id"
        assert "there is no such directory" in error

    def test_texts_in_its_log_are_cut_as_its_key_says(
        self, properties: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limits: list[int] = []
        monkeypatch.setattr(server, "limit_texts", limits.append)
        assert run(["server", "start", "-c", properties(**{"kraft.log.text.max.characters": "30"})]) == 1
        assert limits == [30]

    def test_a_missing_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["server", "start", "-c", str(tmp_path / "none.properties")]) == ExitCode.CONFIGURATION
        assert capsys.readouterr().err.endswith("none.properties: cannot be read: No such file or directory\n")

    def test_a_directory_that_is_not_formatted(
        self, properties: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        (tmp_path / "data").mkdir()
        assert run(["server", "start", "-c", properties()]) == 1
        assert "not formatted" in capsys.readouterr().err
        assert list((tmp_path / "data").iterdir()) == []

    def test_another_nodes_directory(self, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["storage", "format", "-t", CLUSTER_ID, "-c", properties(), "-s"]) == 0
        assert run(["server", "start", "-c", properties(**{"node.id": "2"})]) == ExitCode.DIRECTORY
        assert "formatted for node 1, not for node.id=2" in capsys.readouterr().err

    def test_a_corrupt_quorum_state(
        self, properties: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        assert run(["storage", "format", "-t", CLUSTER_ID, "-c", properties(), "-s"]) == 0
        (tmp_path / "data" / "__cluster_metadata-0" / "quorum-state").write_bytes(b"{")
        assert run(["server", "start", "-c", properties(), "--log-level", "error"]) == ExitCode.DIRECTORY
        assert "quorum-state: not a line of JSON" in capsys.readouterr().err

    def test_a_port_in_use(self, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            path = properties(port)
            assert run(["storage", "format", "-t", CLUSTER_ID, "-c", path, "-s"]) == 0
            assert run(["server", "start", "-c", path, "--log-level", "error"]) == 1
        assert capsys.readouterr().err == (
            f"kraft: error: listeners=CONTROLLER://127.0.0.1:{port}: cannot be bound: Address already in use\n"
        )


def test_overrides() -> None:
    assert parse_overrides(["a=1", " b = 2=3", "a="]) == {"a": "", "b": " 2=3"}
    with pytest.raises(ConfigError, match="--override =1: expected key=value"):
        parse_overrides(["=1"])


class TestLogging:
    def test_json_is_one_object_a_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        configure_logging("json", "info")
        log: Any = structlog.get_logger("x")
        log.info("elected", epoch=3)
        try:
            raise ValueError("two\nlines")
        except ValueError:
            log.exception("failed")
        log.debug("not shown")
        first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert (first["event"], first["epoch"], first["level"]) == ("elected", 3, "info")
        assert first["timestamp"].endswith("Z")
        assert second["exception"][0]["exc_value"] == "two\nlines"

    def test_console_is_for_people(self, capsys: pytest.CaptureFixture[str]) -> None:
        configure_logging("console", "debug")
        structlog.get_logger("x").debug("elected", epoch=3)
        line = capsys.readouterr().err
        assert "elected" in line
        assert "epoch=3" in line
        assert "\x1b" not in line

    async def test_a_trace_has_lines_that_are_not_shown(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        configure_logging("json", "error", traced=True)
        log: Any = structlog.get_logger("x")
        async with node_trace(tmp_path / "trace", CLUSTER_ID, ReplicaKey(1), lambda: 0):
            log.debug("small")
            log.info("elected", epoch=3)
            try:
                raise ValueError("two")
            except ValueError:
                log.exception("failed")
        with open_trace(tmp_path / "trace") as (_, events):
            told = [(event.cause, event.details) for event in events if event.kind == "log"]
        failed = {"level": "error", "exception": "ValueError('two')"}
        assert told == [("elected", {"level": "info", "epoch": 3}), ("failed", failed)]
        assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["failed"]

    def test_the_standard_library_is_left_alone(self) -> None:
        before = logging.getLogger().level
        configure_logging("json", "error")
        assert logging.getLogger().level == before


START = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if (terminal := int(sys.argv[1])) >= 0:
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    os.close(terminal)
os.execv(sys.argv[2], sys.argv[2:])
"""


def start_process(command: list[str], *, terminal: int = -1) -> subprocess.Popen[str]:
    """Start it with SIGHUP's default, even if the tests run under nohup, which a node respects."""
    return subprocess.Popen(
        [sys.executable, "-c", START, str(terminal), *command],
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=() if terminal < 0 else (terminal,),
        start_new_session=terminal >= 0,
    )


@pytest.mark.acceptance
@pytest.mark.rotating(3)
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
async def test_a_node_serves_until_it_is_told_to_stop(
    stop: signal.Signals, properties: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    [port] = free_ports(1)
    path = properties(port)
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", path, "-s"]) == 0
    command = [sys.executable, "-m", "kraft_trio", "server", "start", "-c", path, "--log-format", "json"]
    process = await trio.to_thread.run_sync(start_process, command)
    try:
        with trio.fail_after(2 * WAIT_SECONDS):
            async with LogClient([Endpoint("127.0.0.1", port)]) as client:
                offsets = await client.produce([b"a", b"b"], int(1000 * WAIT_SECONDS))
                read = [record.value async for record in client.read(offsets[0], until=offsets[1] + 1)]
        assert read == [b"a", b"b"]
        describe = ["metadata-quorum", "--bootstrap-controller", f"127.0.0.1:{port}", "describe", "--status", "--json"]
        capsys.readouterr()
        assert await trio.to_thread.run_sync(run, describe) == 0
        status = json.loads(capsys.readouterr().out)
        assert (status["clusterId"], status["leaderId"], status["highWatermark"]) == (CLUSTER_ID, 1, offsets[1] + 1)
        process.send_signal(stop)
        _, log_text = await trio.to_thread.run_sync(lambda: process.communicate(timeout=WAIT_SECONDS))
        assert process.returncode == 0
        assert all(json.loads(line)["event"] for line in log_text.splitlines())
    finally:
        process.kill()
        process.wait()


@pytest.mark.acceptance
async def test_sighup_takes_over_files_and_a_closed_terminal_ends_the_node(
    tmp_path: Path, properties: Callable[..., str]
) -> None:
    [port] = free_ports(1)
    rules = tmp_path / "acl.toml"
    rules.write_text("")
    path = properties(port, **{"authorizer.class.name": STANDARD_AUTHORIZER, "kraft.acl.file": str(rules)})
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", path, "-s"]) == 0
    command = [sys.executable, "-m", "kraft_trio", "server", "start", "-c", path, "--log-format", "json"]
    ours, theirs = pty.openpty()
    process = start_process(command, terminal=theirs)
    os.close(theirs)

    async def logged(event: str) -> dict[str, Any]:
        """The next line with that event."""
        assert process.stderr is not None
        lines = (line for line in map(json.loads, process.stderr) if line["event"] == event)
        return await trio.to_thread.run_sync(next, lines, abandon_on_cancel=True)

    try:
        with trio.fail_after(2 * WAIT_SECONDS):
            await logged("node started")
            process.send_signal(signal.SIGHUP)
            assert (await logged("reading the files about security again"))["files"] == 1
            assert (await logged("access rules reloaded"))["rules"] == 0
            rules.write_text("[[allow]]\n")
            process.send_signal(signal.SIGHUP)
            assert "operations is missing" in (await logged("changed access rules not used"))["reason"]
            os.close(ours)
            ours = -1
            assert (await logged("stopping"))["signal"] == "SIGHUP"
            await trio.to_thread.run_sync(lambda: process.communicate(timeout=WAIT_SECONDS))
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
        if ours >= 0:
            os.close(ours)
