"""What planning of one query over a fleet of replicas takes."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.children import run_to_end
from benchmarks.context import Context
from benchmarks.report import Aim, Section

PROGRAM = (sys.executable, "-m", "benchmarks.loads.spark_plan")
ALLOWED_SECONDS = 900.0
REPLICAS, SEGMENTS = 1000, 100
QUICK_REPLICAS = 100
AIM_S = 60.0
AIM_BYTES = 1e9


async def measure(context: Context) -> Section:
    replicas = QUICK_REPLICAS if context.quick else REPLICAS
    with context.fresh_directory("spark-plan") as directory:
        flags = ["--replicas", str(replicas), "--segments", str(SEGMENTS)]
        await run_to_end([*PROGRAM, "write", str(directory / "nodes"), *flags], ALLOWED_SECONDS)
        planned = json.loads(await run_to_end([*PROGRAM, "plan", f"{directory}/nodes/*"], ALLOWED_SECONDS))
    context.say(f"{replicas:,} replicas: {planned}")
    return section_of(replicas, planned)


def section_of(replicas: int, planned: dict[str, Any]) -> Section:
    name = f"{replicas:,} × {SEGMENTS} × 1 GiB"
    return Section(
        name="spark-plan",
        title="Planning of a query over many replicas",
        method=(
            "What Spark's driver does before the first task: list the directories, divide the segments into tasks, and "
            "pickle these. The segments are holes of 1 GiB, each with an index file."
        ),
        columns=("what", "time", "of it listing", "CPU", "read", "tasks", "pickled tasks", "memory"),
        rows=(
            (
                name,
                f"{planned['seconds']:.1f} s",
                f"{planned['of_them_listing']:.1f} s",
                f"{planned['cpu_s']:.1f} s",
                f"{planned['bytes_read'] / 1e6:.2f} MB",
                f"{planned['tasks']:,}",
                f"{planned['pickled_bytes'] / 1e6:.1f} MB",
                f"{planned['peak_mib']:,.0f} MiB",
            ),
        ),
        aims=(
            Aim(f"{name}: at most {AIM_S:.0f} s", f"{planned['seconds']:.1f} s", planned["seconds"] <= AIM_S),
            Aim(
                f"{name}: at most {AIM_BYTES / 1e9:.0f} GB read",
                f"{planned['bytes_read'] / 1e6:.2f} MB",
                planned["bytes_read"] <= AIM_BYTES,
            ),
        ),
        data=planned,
    )
