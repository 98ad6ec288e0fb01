"""Child processes: started with their output in a file, stopped by process id, always within a bounded time."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio

T = TypeVar("T")

STOP_SECONDS = 15.0
"""How long a child may take to stop after SIGTERM before it is killed."""


class BenchmarkError(Exception):
    """A measurement cannot be made; the message says why."""


class Child:
    """One running process, its output appended to a log file.  Made by `start_child`, ended by `stop` or `kill`."""

    def __init__(self, name: str, process: trio.Process, log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def log_tail(self, characters: int = 2000) -> str:
        return self.log.read_text(errors="replace")[-characters:]

    def check_running(self) -> None:
        """Raise BenchmarkError, with the end of its output, if the process is gone."""
        if not self.running:
            raise BenchmarkError(f"{self.name} ended with code {self.process.returncode}:\n{self.log_tail()}")

    async def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> None:
        """SIGTERM, then after STOP_SECONDS SIGKILL; returns when the process is gone, also when cancelled."""
        if self.running:
            os.kill(self.pid, signal.SIGTERM)
        with trio.CancelScope(shield=True):
            with trio.move_on_after(STOP_SECONDS):
                await self.process.wait()
            await self.kill()


async def start_child(
    name: str,
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    *,
    stdin: int = subprocess.DEVNULL,
) -> Child:
    """Start a process.  Raises BenchmarkError when the command does not exist."""
    with log.open("ab") as output:
        try:
            process = await trio.lowlevel.open_process(
                list(command),
                stdin=stdin,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
            )
        except OSError as error:
            raise BenchmarkError(f"cannot start {name}: {error}") from error
    return Child(name, process, log)


async def run_to_end(command: Sequence[str], seconds: float) -> str:
    """Run a command and return its output.  Raises BenchmarkError when it fails or takes longer than that."""
    with trio.move_on_after(seconds):
        completed = await trio.run_process(list(command), capture_stdout=True, capture_stderr=True, check=False)
        if completed.returncode:
            output = (completed.stderr + completed.stdout).decode(errors="replace")
            raise BenchmarkError(f"{' '.join(command)} ended with code {completed.returncode}:\n{output[-2000:]}")
        return completed.stdout.decode()
    raise BenchmarkError(f"{' '.join(command)} took longer than {seconds:.0f} s")


async def until_sigterm(work: Callable[[], Awaitable[T]]) -> T:
    """Do the work, or cancel it at SIGTERM, so that it stops its children.  Raises SystemExit with 143 then."""
    done: list[T] = []
    async with trio.open_nursery() as nursery:

        async def cancel_at_sigterm(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            with trio.open_signal_receiver(signal.SIGTERM) as signals:
                task_status.started()
                async for _ in signals:
                    nursery.cancel_scope.cancel()

        await nursery.start(cancel_at_sigterm)
        done.append(await work())
        nursery.cancel_scope.cancel()
    if not done:
        raise SystemExit(128 + signal.SIGTERM)
    return done[0]


@asynccontextmanager
async def stopping(children: Mapping[int, Child]) -> AsyncIterator[None]:
    """On exit stop whatever is in the mapping by then, all at the same time."""
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for child in children.values():
                    nursery.start_soon(child.stop)


async def poll_until(
    what: str, seconds: float, probe: Callable[[], Awaitable[T | None]], interval_seconds: float = 0.05
) -> T:
    """Ask another process until it answers something else than None.  Raises BenchmarkError after that many seconds."""
    with trio.move_on_after(seconds):
        while True:
            answer = await probe()
            if answer is not None:
                return answer
            await trio.sleep(interval_seconds)
    raise BenchmarkError(f"no {what} within {seconds:.0f} s")
