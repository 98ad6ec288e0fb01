"""Time and memory of `kraft audit` of three replicas."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import trio

from benchmarks.children import BenchmarkError, run_to_end, start_child
from benchmarks.context import Context
from benchmarks.processes import memory_of
from benchmarks.report import Aim, Section

WRITE = (sys.executable, "-m", "benchmarks.loads.spark_audit")
KRAFT = str(Path(sys.executable).with_name("kraft"))
SECONDS = 1200.0
AIM_S = 90.0
AIM_SMALL_S = 25.0
CORES = 2
LOCAL, SPARK = "in the command's process", f"local[{CORES}]"
WORKERS = "local-cluster[2,1,2048]"
"""Two workers, each a process with one core."""


@attrs.frozen
class Run:
    """The audit of three replicas."""

    records: int
    """Of each replica."""
    in_a_batch: int
    """An audit's work goes by batches."""
    where: str
    is_large: bool = False
    """Whether the replicas share their segments on the disk."""
    is_small: bool = False

    @property
    def name(self) -> str:
        return f"3 × {self.records / 1e6:g}M records, {self.in_a_batch} a batch; {self.where}"

    @property
    def options(self) -> list[str]:
        return [] if self.where == LOCAL else ["--master", self.where]


RUNS = (
    Run(25_000, 10, LOCAL, is_small=True),
    Run(25_000, 10, SPARK),
    Run(1_000_000, 10, LOCAL),
    Run(1_000_000, 10, SPARK),
    Run(5_000_000, 10, LOCAL),
    Run(5_000_000, 10, SPARK),
    Run(5_000_000, 10, WORKERS),
    Run(100_000_000, 100, SPARK, is_large=True),
)
"""Of 1, 40, 200 and 3,300 MB a replica, about."""
QUICK_RUNS = (
    Run(25_000, 10, LOCAL, is_small=True),
    Run(25_000, 10, SPARK),
    Run(100_000, 10, SPARK),
    Run(1_000_000, 1, LOCAL),
    Run(1_000_000, 1, SPARK),
)
SAMPLED_EVERY_S = 0.2
FLAT = 1.5
"""How many times as much memory the run with the most batches may take as the one with the fewest."""


@attrs.define
class Usage:
    """Of the command's process and all that come from it."""

    seconds: float = 0.0
    java_mib: float = 0.0
    """The most that was resident at a time."""
    python_mib: float = 0.0
    """The same of all Python processes together, the command and Spark's workers; what they share counts for each."""
    cpu_s_of: dict[int, float] = attrs.field(factory=dict)
    """By process; those that end between two samples are not counted in full."""

    @property
    def cpu_s(self) -> float:
        return sum(self.cpu_s_of.values())

    def sample(self, pids: list[int]) -> None:
        java = python = 0.0
        for pid in pids:
            try:
                is_java = Path(f"/proc/{pid}/comm").read_text() == "java\n"
                mib = memory_of(pid).resident_mib
                self.cpu_s_of[pid] = _cpu_s(pid)
            except (OSError, KeyError):
                continue  # It has ended.
            java, python = (java + mib, python) if is_java else (java, python + mib)
        self.java_mib = max(self.java_mib, java)
        self.python_mib = max(self.python_mib, python)


async def measure(context: Context) -> Section:
    rows: list[tuple[str, ...]] = []
    aims: list[Aim] = []
    data: dict[str, Any] = {}
    usages: dict[Run, tuple[int, Usage]] = {}
    for run in QUICK_RUNS if context.quick else RUNS:
        written, usage = await _run(context, run)
        rows.append(
            (
                run.name,
                f"{written['bytes'] / 1e6:,.0f} MB",
                f"{usage.seconds:.1f} s",
                f"{usage.cpu_s:.1f} s",
                f"{written['records'] / usage.seconds:,.0f}",
                f"{written['batches'] / usage.seconds:,.0f}",
                f"{usage.java_mib:,.0f}",
                f"{usage.python_mib:,.0f}",
            )
        )
        figures = attrs.asdict(usage, filter=attrs.filters.exclude("cpu_s_of"))
        data[run.name] = {**written, **figures, "cpu_s": usage.cpu_s}
        usages[run] = (written["batches"], usage)
        aim_s = AIM_SMALL_S if run.is_small else AIM_S
        if run.is_small or (run.records == 5_000_000 and run.where == SPARK):
            aims.append(Aim(f"{run.name}: at most {aim_s:.0f} s", f"{usage.seconds:.1f} s", usage.seconds <= aim_s))
    of_spark = [counted for run, counted in usages.items() if run.where == SPARK]
    (few, least), (many, most) = min(of_spark, key=lambda one: one[0]), max(of_spark, key=lambda one: one[0])
    mib = [usage.java_mib + usage.python_mib for usage in (least, most)]
    text = f"memory of Spark bounded: at most {FLAT} × for {many / few:.0f} times the batches"
    aims.append(Aim(text, f"{mib[0]:,.0f} and {mib[1]:,.0f} MiB", mib[1] <= FLAT * mib[0]))
    return Section(
        name="spark-audit",
        title="kraft audit of three replicas, end to end",
        method=(
            "`kraft audit`, every check of logs, report and history written, from the start of the command to its end. "
            "Three equal logs of values of 50 sizes below 60 bytes, 20 epochs, uncompressed, in segments of 64 MiB, in "
            "the system's cache; the replicas of the largest one share their files. Memory is what was resident at a "
            "time."
        ),
        columns=("what", "size", "time", "CPU", "records/s", "batches/s", "JVM MiB", "Python MiB"),
        rows=tuple(rows),
        aims=tuple(aims),
        data=data,
    )


async def _run(context: Context, run: Run) -> tuple[dict[str, int], Usage]:
    with context.fresh_directory("spark-audit") as directory:
        flags = ["--records", str(run.records), "--records-a-batch", str(run.in_a_batch)]
        flags += ["--link"] if run.is_large else []
        written = json.loads(await run_to_end([*WRITE, str(directory / "nodes"), *flags], SECONDS))
        usage = await _audit(directory, run)
        context.say(f"{run.name}: {usage}")
        return written, usage


async def _audit(directory: Path, run: Run) -> Usage:
    """Raises BenchmarkError where the audit finds anything."""
    out = ["--out", str(directory / "out"), *run.options]
    usage = Usage()
    began = time.perf_counter()
    child = await start_child("kraft audit", [KRAFT, "audit", f"{directory}/nodes/*", *out], directory / "log")
    try:
        with trio.move_on_after(SECONDS):
            while child.running:
                usage.sample([child.pid, *_descendants(child.pid)])
                await trio.sleep(SAMPLED_EVERY_S)
        usage.seconds = time.perf_counter() - began
        if child.process.returncode != 0 or " checks: 0 errors, 0 warnings" not in child.log_tail():
            raise BenchmarkError(f"kraft audit ended with code {child.process.returncode}:\n{child.log_tail()}")
    finally:
        await child.stop()
    return usage


def _cpu_s(pid: int) -> float:
    """Raises OSError if the process has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _descendants(pid: int) -> Iterator[int]:
    """The processes that come from that one and live."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry))
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        yield from children
        waiting += children
