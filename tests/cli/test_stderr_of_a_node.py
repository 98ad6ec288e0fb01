"""A node whose stderr nobody reads, or can be written to, serves and stops as any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trio

from harness.ports import free_ports
from kraft_trio.cli import run
from kraft_trio.client.log_client import LogClient
from kraft_trio.protocol.types import Endpoint

CLUSTER_ID = "fMCL8kv1SWm87L_Md-I2hg"
KINDS = ("stalled", "gone", "closed", "full")
START = [sys.executable, "-m", "kraft_trio", "server", "start"]
SECONDS = 120


@contextmanager
def unusable(kind: str) -> Iterator[int | None]:
    """A descriptor to be a process's stderr; None: it is to have none."""
    if kind == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
        yield descriptor
        os.close(descriptor)
        return
    if kind == "closed":
        yield None
        return
    reading, writing = os.pipe()
    if kind == "gone":
        os.close(reading)
    else:
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, bytes(4096))
        os.set_blocking(writing, True)
    yield writing
    os.close(writing)
    if kind != "gone":
        os.close(reading)


def start(command: list[str], stderr: int | None) -> subprocess.Popen[bytes]:
    if stderr is None:
        return subprocess.Popen(["sh", "-c", 'exec "$@" 2>&-', "sh", *command])
    return subprocess.Popen(command, stderr=stderr)


def properties(tmp_path: Path) -> tuple[str, int]:
    [port] = free_ports(1)
    path = tmp_path / "node.properties"
    path.write_text(
        f"node.id=1\nlisteners=CONTROLLER://127.0.0.1:{port}\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{port}\nmetadata.log.dir={tmp_path / 'data'}\n"
    )
    return str(path), port


@pytest.mark.acceptance
@pytest.mark.rotating(3)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_node_serves_and_stops_without_stderr(kind: str, tmp_path: Path) -> None:
    path, port = properties(tmp_path)
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", path, "-s"]) == 0
    with unusable(kind) as stderr:
        process = await trio.to_thread.run_sync(start, [*START, "-c", path, "--log-level", "debug"], stderr)
        try:
            with trio.fail_after(SECONDS):
                async with LogClient([Endpoint("127.0.0.1", port)]) as client:
                    await client.produce([b"a", b"b"], 1000 * SECONDS)
                # What is not a frame is told in the log.
                for _ in range(100):
                    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                        await stream.send_all(b"\xff" * 8)
                async with LogClient([Endpoint("127.0.0.1", port)]) as client:
                    assert len(await client.produce([b"c"], 1000 * SECONDS)) == 1
            process.send_signal(signal.SIGTERM)
            with trio.fail_after(SECONDS):
                await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
            assert process.returncode == 0
        finally:
            process.kill()
            process.wait()


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["stalled", "gone"])
def test_a_node_that_cannot_start_ends_without_stderr(kind: str, tmp_path: Path) -> None:
    path, _ = properties(tmp_path)
    with unusable(kind) as stderr:
        process = start([*START, "-c", path], stderr)
        try:
            assert process.wait(SECONDS) == 1
        finally:
            process.kill()
            process.wait()
