"""Directories as tables: decoding speed of a task of the Spark source, compared with a Python loop.

What whole queries take, and what Spark's own connector to Kafka does, is measured in the same run.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.children import run_to_end
from benchmarks.context import Context
from benchmarks.report import Aim, Section
from benchmarks.spark_query import measure_queries

PROGRAM = (sys.executable, "-m", "benchmarks.loads.spark_read")
SECONDS = 1200.0
LOGS = {
    "batches of 1 record": ("batches", 1, 1.5e6),
    "batches of 200 records": ("records", 200, 1.0e6),
}
"""What is read of a log of such batches, and how many rows of that a core-second should give at least."""
WAYS = {"columns": "by the source", "loop": "Python loop"}


async def measure(context: Context) -> list[Section]:
    rounds = context.pick(5, 2)
    rows: list[tuple[str, ...]] = []
    aims: list[Aim] = []
    data: dict[str, Any] = {}
    directories: dict[str, tuple[Path, float, int, int]] = {}
    with context.fresh_directory("spark-read") as directory:
        for name, (content, records_a_batch, aim) in LOGS.items():
            count = context.pick(
                2_000_000 if records_a_batch == 1 else 25_000, 1_000_000 if records_a_batch == 1 else 10_000
            )
            path = directory / content
            flags = ["--batches", str(count), "--records-a-batch", str(records_a_batch)]
            written = json.loads(await run_to_end([*PROGRAM, "write", str(path), *flags], SECONDS))["bytes"]
            for way, label in WAYS.items():
                runs = [await _run(way, str(path), content) for _ in range(rounds if way == "columns" else 1)]
                per_core_s = statistics.median(run["rows"] / run["cpu_s"] for run in runs)
                per_s = statistics.median(run["rows"] / run["seconds"] for run in runs)
                row_bytes = written / runs[0]["rows"]
                mib_per_s = per_core_s * row_bytes / 2**20
                rows.append((f"{content}, {name}: {label}", f"{per_core_s:,.0f}", f"{mib_per_s:,.0f}", f"{per_s:,.0f}"))
                data[f"{content}, {label}"] = runs
                context.say(f"{content}, {label}: {per_core_s:,.0f} rows a core-second")
                if way == "columns":
                    text = f"{content}: at least {aim / 1e6:.1f} million rows a core-second"
                    aims.append(Aim(text, f"{per_core_s / 1e6:.2f} million", per_core_s >= aim))
            directories[content] = (path, row_bytes, count, records_a_batch)
        tasks = Section(
            name="spark-read",
            title="Directories as Arrow batches, as a task of the Spark source makes them",
            method=(
                "Every column of every row, CRCs checked, files in the system's cache; values of 50 sizes below 60 "
                "bytes. Processor time of the one process, and the time that passed. The loop makes the records as "
                "Python objects (batches: headers and CRCs) with the functions of kraft_trio.storage, and no columns."
            ),
            columns=("what", "rows a core-second", "MiB a core-second", "rows a second"),
            rows=tuple(rows),
            aims=tuple(aims),
            notes=("The split of files into tasks is part of it; Spark itself is not.",),
            data=data,
        )
        return [tasks, await measure_queries(context, directories)]


async def _run(way: str, path: str, content: str) -> dict[str, float]:
    answer: dict[str, float] = json.loads(await run_to_end([*PROGRAM, way, path, "--content", content], SECONDS))
    if answer["rows"] < 1:
        raise ValueError(f"{content}: nothing was read")
    return answer
