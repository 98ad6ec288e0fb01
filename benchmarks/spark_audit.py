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
CORES = 2
RUNS = ((1_000_000, 10), (5_000_000, 10))
"""How many records each replica has, and a batch: an audit's work goes by batches."""
QUICK_RUNS = ((100_000, 10), (1_000_000, 1))
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

    def sample(self, pids: list[int]) -> None:
        java = python = 0.0
        for pid in pids:
            try:
                is_java = Path(f"/proc/{pid}/comm").read_text() == "java\n"
                mib = memory_of(pid).resident_mib
            except (OSError, KeyError):
                continue  # It has ended.
            java, python = (java + mib, python) if is_java else (java, python + mib)
        self.java_mib = max(self.java_mib, java)
        self.python_mib = max(self.python_mib, python)


async def measure(context: Context) -> Section:
    rows: list[tuple[str, ...]] = []
    aims: list[Aim] = []
    data: dict[str, Any] = {}
    usages: dict[int, Usage] = {}
    for records, in_a_batch in QUICK_RUNS if context.quick else RUNS:
        written, usage = await _run(context, records, in_a_batch)
        name = f"3 × {records / 1e6:g}M records, {in_a_batch} a batch"
        rows.append(
            (
                name,
                f"{usage.seconds:.1f} s",
                f"{written['records'] / usage.seconds:,.0f}",
                f"{written['batches'] / usage.seconds:,.0f}",
                f"{written['bytes'] / usage.seconds / 2**20:,.0f}",
                f"{usage.java_mib:,.0f}",
                f"{usage.python_mib:,.0f}",
            )
        )
        data[name] = {**written, **attrs.asdict(usage)}
        usages[written["batches"]] = usage
        if records == 5_000_000:
            text = f"{name}: at most {AIM_S:.0f} s on {CORES} cores"
            aims.append(Aim(text, f"{usage.seconds:.1f} s", usage.seconds <= AIM_S))
    least, most = usages[min(usages)], usages[max(usages)]
    mib = [usage.java_mib + usage.python_mib for usage in (least, most)]
    text = f"memory bounded: at most {FLAT} × for {max(usages) / min(usages):.0f} times the batches"
    aims.append(Aim(text, f"{mib[0]:,.0f} and {mib[1]:,.0f} MiB", mib[1] <= FLAT * mib[0]))
    return Section(
        name="spark-audit",
        title="kraft audit of three replicas, end to end",
        method=(
            f"`kraft audit --master local[{CORES}]`, every check of logs, report and history written, from the start "
            "of the command to its end. Three equal logs of values of 50 sizes below 60 bytes, 20 epochs, "
            "uncompressed, in segments of 64 MiB, in the system's cache. Memory is what was resident at a time."
        ),
        columns=("what", "time", "records/s", "batches/s", "MiB/s", "JVM MiB", "Python MiB"),
        rows=tuple(rows),
        aims=tuple(aims),
        data=data,
    )


async def _run(context: Context, records: int, in_a_batch: int) -> tuple[dict[str, int], Usage]:
    with context.fresh_directory("spark-audit") as directory:
        flags = ["--records", str(records), "--records-a-batch", str(in_a_batch)]
        written = json.loads(await run_to_end([*WRITE, str(directory / "nodes"), *flags], SECONDS))
        usage = await _audit(directory)
        context.say(f"{records:,} records, {in_a_batch} a batch: {usage}")
        return written, usage


async def _audit(directory: Path) -> Usage:
    """Raises BenchmarkError where the audit finds anything."""
    out = ["--out", str(directory / "out"), "--master", f"local[{CORES}]"]
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
