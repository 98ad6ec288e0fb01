"""How long a process takes to start: the command, the import, and a server until it listens."""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from benchmarks.children import BenchmarkError
from benchmarks.context import Context
from benchmarks.report import Aim, Section
from harness.command import KRAFT
from harness.node import NodeProcess
from harness.quorum import Quorum

SERVER: Final = "kraft server start, to listening"
MOST_S: Final = {"kraft --help": 0.25, "import kraft_trio": 0.25, SERVER: 0.6}
COMMANDS: Final = {
    "an empty program": [sys.executable, "-c", "pass"],
    "import trio": [sys.executable, "-c", "import trio"],
    "import kraft_trio": [sys.executable, "-c", "import kraft_trio"],
    "kraft --help": [KRAFT, "--help"],
}


async def measure(context: Context) -> Section:
    rounds = context.pick(10, 3)
    seconds: dict[str, list[float]] = {name: [] for name in [*COMMANDS, SERVER]}
    with context.fresh_directory("start-up") as directory:
        quorum = await trio.to_thread.run_sync(Quorum, directory, 1)
        measured: dict[str, Callable[[], float]] = {name: _run_of(command) for name, command in COMMANDS.items()}
        measured[SERVER] = lambda: seconds_to_listen(quorum.nodes[1])
        # The first time compiles and reads files that the others find in the system's cache.
        for number in range(rounds + 1):
            for name, run in measured.items():
                taken = await trio.to_thread.run_sync(run)
                if number > 0:
                    seconds[name].append(taken)
            context.say(f"start-up, round {number} of {rounds}")
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return Section(
        name="start-up",
        title="Start-up",
        method=(
            f"From the start of the process to its end, or to the first connection that a server accepts. {rounds} "
            "rounds of all, after one that does not count."
        ),
        columns=("what", "median s", "least s", "most s"),
        rows=tuple(
            (name, f"{medians[name]:.3f}", f"{min(values):.3f}", f"{max(values):.3f}")
            for name, values in seconds.items()
        ),
        aims=tuple(
            Aim(f"{name}: at most {most} s", f"{medians[name]:.2f} s", medians[name] <= most)
            for name, most in MOST_S.items()
        ),
        data={"seconds": seconds},
    )


def _run_of(command: list[str]) -> Callable[[], float]:
    def run() -> float:
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[1])
        return time.perf_counter() - began

    return run


def seconds_to_listen(node: NodeProcess) -> float:
    """Start a node, wait until it listens, and stop it."""
    began = time.perf_counter()
    node.start()
    try:
        node.wait_until_listening()
        return time.perf_counter() - began
    except AssertionError as error:
        raise BenchmarkError(str(error)) from error
    finally:
        if node.running:
            node.stop(signal.SIGTERM)
