"""Speed of writing and checking a snapshot, compared with a copy of the same file; the effect on other tasks."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable

import attrs

from benchmarks.children import run_to_end
from benchmarks.context import Context
from benchmarks.report import Aim, Section

AIM_SHARE = 0.5
"""Share of the speed of a plain copy with one fsync."""
CASES = {
    "values of 200 bytes": (200, "values"),
    "values of 1024 bytes": (1024, "values"),
    "values of 4096 bytes": (4096, "values"),
    "records with a key and a time, 1024 bytes": (1024, "kept"),
    "records with a key, made meanwhile, 1024 bytes": (1024, "keyed"),
}
"""The average size, and of what kind they are."""
SECONDS = 600.0
PROGRAM = (sys.executable, "-m", "benchmarks.loads.snapshot_files")
COMMANDS = ("write", "copy", "check", "open")


@attrs.frozen
class Run:
    """One command's answer."""

    bytes: int
    seconds: float
    peak_mib: float
    cpu_seconds: float
    p99_wait_ms: float = 0.0

    @property
    def mb_per_second(self) -> float:
        return self.bytes / 1e6 / self.seconds


Runs = dict[str, list[Run]]
"""By command, one run a round."""


async def measure(context: Context) -> Section:
    total_bytes, rounds = context.pick(1024, 256) << 20, context.pick(5, 3)
    measured: dict[str, Runs] = {}
    for case, (record_bytes, kind) in CASES.items():
        runs: Runs = {command: [] for command in COMMANDS}
        for number in range(rounds):
            with context.fresh_directory("snapshot") as directory:
                for command in COMMANDS:
                    sizes = ["--record-bytes", str(record_bytes), "--total-bytes", str(total_bytes)]
                    flags = [*sizes, "--kind", kind] if command == "write" else []
                    answer = json.loads(await run_to_end([*PROGRAM, command, str(directory), *flags], SECONDS))
                    runs[command].append(Run(**answer))
            written, copied = runs["write"][-1].mb_per_second, runs["copy"][-1].mb_per_second
            context.say(f"{case}, round {number + 1}: written {written:.0f}, copied {copied:.0f} MB/s")
        measured[case] = runs
    return section_of(measured)


def section_of(measured: dict[str, Runs]) -> Section:
    """The shares are medians over rounds: each round's writing is held against its own copy, a moment later."""
    rows, aims = [], []
    for case, runs in measured.items():
        share = statistics.median(
            written.mb_per_second / copied.mb_per_second
            for written, copied in zip(runs["write"], runs["copy"], strict=True)
        )
        for command in COMMANDS:
            of_copy = f"{share * 100:.0f} %" if command == "write" else ""
            waits = f"{max(run.p99_wait_ms for run in runs[command]):.1f}" if command == "write" else ""
            rows.append(
                (
                    f"{case}: {command}",
                    f"{runs[command][0].bytes / 2**20:.0f}",
                    f"{_median(run.mb_per_second for run in runs[command]):.0f}",
                    of_copy,
                    f"{_median(run.seconds for run in runs[command]):.2f}",
                    f"{_median(run.cpu_seconds for run in runs[command]):.2f}",
                    waits,
                    f"{max(run.peak_mib for run in runs[command]):.0f}",
                )
            )
        text = f"{case} written at {AIM_SHARE * 100:.0f} % of a plain copy or more"
        aims.append(Aim(text, f"{share * 100:.0f} %", share >= AIM_SHARE))
    return Section(
        name="snapshot",
        title="Snapshot files",
        method=(
            "A snapshot is written as a node writes it, fsynced and renamed. Its values have between half and one and "
            "a half times the named size. The records exist before, as in `LatestByKey`, or each is made on demand. "
            "Then the file is copied with one fsync at the end, which shows the speed of the disk, and read to its "
            "end. Last, a log that begins at the snapshot is opened, which reads it too. Each step has its own "
            "process; reads find the file in the system's cache. The wait of other tasks for their turn, while the "
            "snapshot is written, is the p99 of the worst round."
        ),
        columns=("what", "MiB", "MB/s", "of a copy", "median s", "CPU s", "others wait, p99 ms", "peak MiB"),
        rows=tuple(rows),
        aims=tuple(aims),
        data={
            case: {command: [attrs.asdict(run) for run in some] for command, some in runs.items()}
            for case, runs in measured.items()
        },
    )


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)
