"""Starts `kraft` processes by forking one that has imported the package; each import costs most of a short process.

The server is this file run as a program, with one request for each process.  A process that it starts is the caller's
own child, and ends like a `kraft` by exec.  It differs from one in /proc/PID/cmdline, in its memory, which includes
modules that only other commands need, and in the seed of its string hashes, which all processes of one server share.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, NoReturn

PRELOADED = (
    "kraft_trio.application.configured_state_machine",
    "kraft_trio.cli.logs.dump_log",
    "kraft_trio.cli.quorum.features",
    "kraft_trio.cli.logs.log_commands",
    "kraft_trio.cli.quorum.metadata_quorum",
    "kraft_trio.cli.metrics",
    "kraft_trio.cli.serving.open_files",
    "kraft_trio.cli.logs.records",
    "kraft_trio.cli.serving.server",
    "kraft_trio.cli.snapshots.snapshot_commands",
    "kraft_trio.cli.directory.storage",
    "kraft_trio.kv.gateway.server",
    "kraft_trio.running",
)
_REQUEST_BYTES = 2**18
_PR_SET_CHILD_SUBREAPER = 36
_pidfd_open = getattr(os, "pidfd_open", None)
"""None in processes without what only Linux has (harness/portable.py), which start no others."""


class ForkedProcess:
    """A `kraft` process, with the part of `subprocess.Popen` that its owner needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._descriptor = _pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None if the process still runs."""
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
                    os.close(self._descriptor)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code.  Raises subprocess.TimeoutExpired."""
        if self.poll() is None:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            ended.poll(None if timeout is None else timeout * 1000)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"kraft, process {self.pid}", timeout or 0)
        return code

    def send_signal(self, signal_number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal_number)


class ForkServer:
    """A server that ends when this process ends, in whatever way."""

    def __init__(self) -> None:
        self._environment = _interpreter_options(os.environ)
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            descriptor = theirs.fileno()
            # Without -P, modules of harness/ would come before those of the same name elsewhere.
            command = [sys.executable, "-P", __file__, str(descriptor)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[descriptor])

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """End the server; the processes that it started continue."""
        self._connection.close()
        self._process.wait()

    def can_start(self, environment: Mapping[str, str]) -> bool:
        """Return whether the interpreter of a process with this environment would behave as the server's."""
        return _interpreter_options(environment) == self._environment

    def start(
        self,
        command: Sequence[str],
        *,
        stdin: IO[bytes],
        stdout: IO[bytes],
        stderr: IO[bytes],
        cwd: str,
        environment: Mapping[str, str],
        start_new_session: bool,
    ) -> ForkedProcess:
        """Start a process as `subprocess.Popen` does.  Raises RuntimeError if the server has ended."""
        request = json.dumps([list(command), cwd, dict(environment), start_new_session]).encode()
        descriptors = [stdin.fileno(), stdout.fileno(), stderr.fileno()]
        with self._lock:
            try:
                # A process whose parent has ended becomes a child of the subreaper.
                _set_subreaper(True)
                socket.send_fds(self._connection, [request], descriptors)
                pid, is_child = self._connection.recv(20), self._connection.recv(20)
            except ConnectionError:
                is_child = b""
            finally:
                _set_subreaper(False)
        if not is_child:
            raise RuntimeError(f"the fork server ended with code {self._process.wait()}; its stderr says why")
        return ForkedProcess(int(pid))


def _interpreter_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an interpreter reads when it starts."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


def _set_subreaper(value: bool) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _serve(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return in each process that is started, with its request and its standard streams; never in the server."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 3)
        if not request:
            os._exit(0)
        between = os.fork()
        if between == 0:
            started = os.fork()
            if started == 0:
                return request, descriptors
            connection.send(str(started).encode())
            os._exit(0)
        _, status = os.waitpid(between, 0)
        assert status == 0, "no process was started"
        connection.send(b"is your child")
        for descriptor in descriptors:
            os.close(descriptor)


def _run(request: bytes, descriptors: list[int]) -> NoReturn:
    """Become the process that the request describes."""
    command, directory, environment, start_new_session = json.loads(request)
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.chdir(directory)
    if start_new_session:
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = command

    import trio

    from kraft_trio.cli import main

    trio._core._run._r.seed()  # Otherwise all nodes would run their tasks in the same random order.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    try:
        main()
    except SystemExit as ending:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        # Freeing all modules would cost several times what a command does.
        os._exit(int(ending.code or 0))
    raise AssertionError("main returned")


if __name__ == "__main__":
    # Ctrl-C at a terminal is for the others: the server ends with the process that started it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    from kraft_trio.cli import import_without

    import_without("rich", "structlog.dev")
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1
    with socket.socket(fileno=int(sys.argv[1])) as server:
        order = _serve(server)
    _run(*order)
