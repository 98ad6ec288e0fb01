"""Time to open a log of 1 GiB."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from benchmarks.children import run_to_end
from benchmarks.context import Context
from benchmarks.report import Aim, Section

AIM_SECONDS = 2.0
BATCHES = {"16 KiB": (16 * 1024, False), "1 KiB": (1024, False), "1 KiB, idempotent producer": (1024, True)}
"""What the log is made of: the size of a batch, and whether a producer id and sequences are in it."""
WRITE_SECONDS = 600.0
PROGRAM = (sys.executable, "-m", "benchmarks.loads.log_files")


async def measure(context: Context) -> Section:
    total_mib, rounds = context.pick(1024, 256), context.pick(5, 3)
    rows: list[tuple[str, ...]] = []
    aims: list[Aim] = []
    data: dict[str, list[float]] = {}
    for name, (batch_bytes, idempotent) in BATCHES.items():
        flags = ["--batch-bytes", str(batch_bytes), "--total-bytes", str(total_mib << 20)]
        times = await _open_times(context, name, [*flags, *(["--idempotent"] if idempotent else [])], rounds)
        for how, seconds in times.items():
            label = f"batches of {name}: {how}"
            data[label] = seconds
            rows.append((label, f"{total_mib}", f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}"))
            if how == "clean stop" and not context.quick:
                median = statistics.median(seconds)
                text = f"{total_mib} MiB in batches of {name}: below {AIM_SECONDS:.0f} s after a clean stop"
                aims.append(Aim(text, f"{median:.2f} s", median < AIM_SECONDS))
    return Section(
        name="open",
        title="Opening a log",
        method=(
            "Log.open in a process of its own (imports not counted). After a clean stop with the files in the system's "
            "cache; the same with their pages dropped from it first; and once after a stop without close, when every "
            f"checksum is verified. {rounds} opens each, the unclean one once."
        ),
        columns=("log", "MiB", "median s", "max s"),
        rows=tuple(rows),
        aims=tuple(aims),
        notes=("The aim is for 1 GiB: the quick form opens less and says nothing about it.",) if context.quick else (),
        data={"seconds": data},
    )


async def _open_times(context: Context, name: str, flags: list[str], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    with context.fresh_directory("open") as directory:
        for unclean in (False, True):
            log = str(directory / ("unclean" if unclean else "clean"))
            context.say(f"writing a log in batches of {name}")
            await run_to_end([*PROGRAM, "write", log, *flags, *(["--unclean"] if unclean else [])], WRITE_SECONDS)
            if unclean:
                times["unclean stop"] = [await _open(log)]
            else:
                times["clean stop"] = [await _open(log) for _ in range(rounds)]
                times["clean stop, cold cache"] = [await _open(log, "--cold") for _ in range(rounds)]
        for how, seconds in times.items():
            context.say(f"open, batches of {name}, {how}: {statistics.median(seconds):.2f} s")
    return times


async def _open(directory: str, *flags: str) -> float:
    answer = json.loads(await run_to_end([*PROGRAM, "open", directory, *flags], seconds=WRITE_SECONDS))
    if answer["end_offset"] < 1:
        raise ValueError(f"{Path(directory).name}: the log opened is empty")
    return float(answer["seconds"])
