"""Runs the `kraft` command: by exec, or by a fork server if the environment variable KRAFT_FORK_SERVER is set.

The tests set it.  A fork server saves most of the CPU time of a short process, but users run the command by exec, and
so do benchmarks, scripts and the nightly tests.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

from harness.fork_server import ForkedProcess, ForkServer

KRAFT = str(Path(sys.executable).with_name("kraft"))
COMMAND_SECONDS = 120.0
"""Limit for a command that normally takes a second: the machine may be busy."""
FORK_SERVER = "KRAFT_FORK_SERVER"

KraftProcess: TypeAlias = "subprocess.Popen[bytes] | ForkedProcess"
_starting = threading.Lock()


def kraft(
    *arguments: str, seconds: float = COMMAND_SECONDS, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a `kraft` command to its end; any exit code is returned.  Raises subprocess.TimeoutExpired."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = start_kraft(arguments, stdout=stdout, stderr=stderr, cwd=cwd)
        try:
            code = process.wait(seconds)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess([KRAFT, *arguments], code, stdout.read().decode(), stderr.read().decode())


def start_kraft(
    arguments: Sequence[str],
    *,
    stdout: IO[bytes],
    stderr: IO[bytes],
    cwd: Path | None = None,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    start_new_session: bool = False,
) -> KraftProcess:
    """Start a `kraft` process.

    `prefix` is a command that runs it, such as `prlimit --nofile=256`.  `environment` is added to this process's own.
    """
    command = [*prefix, KRAFT, *arguments]
    whole_environment = {**os.environ, **(environment or {})}
    with open(os.devnull, "rb") as stdin:
        if os.environ.get(FORK_SERVER) and not prefix:
            with _starting:
                server = _fork_server()
            if server.can_start(whole_environment):
                return server.start(
                    command,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=str(cwd or Path.cwd()),
                    environment=whole_environment,
                    start_new_session=start_new_session,
                )
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=whole_environment,
            start_new_session=start_new_session,
        )


@functools.cache
def _fork_server() -> ForkServer:
    return ForkServer()
