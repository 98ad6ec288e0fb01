"""Speed of the simulator: virtual seconds per second of one CPU, with all invariants checked."""

from __future__ import annotations

import json
import statistics
import sys

from benchmarks.children import run_to_end
from benchmarks.context import Context
from benchmarks.report import Aim, Section

LIGHT = "5 nodes, 1 append a second"
BUSIER = "5 nodes, 5 appends a second"
AIMS = {LIGHT: 200.0, BUSIER: 80.0}
"""Virtual seconds per second."""
CALM: dict[str, tuple[str, ...]] = {
    "5 nodes, idle": ("--appends-per-s", "0"),
    LIGHT: ("--appends-per-s", "1"),
    BUSIER: ("--appends-per-s", "5"),
    "3 nodes, 1 append a second": ("--appends-per-s", "1", "--nodes", "3"),
}
PROGRAM = (sys.executable, "-m", "benchmarks.loads.simulated_cluster")


async def measure(context: Context) -> Section:
    rounds = context.pick(5, 2)
    speeds: dict[str, list[float]] = {name: [] for name in CALM}
    for nodes in (3, 5):
        speeds[f"{nodes} nodes, all faults, 1 to 4 clients"] = []
    for number in range(rounds):
        for name, flags in CALM.items():
            speeds[name].append(await _speed("calm", *flags))
        for nodes in (3, 5):
            speed = await _speed("faulty", "--nodes", str(nodes), "--seed", str(number))
            speeds[f"{nodes} nodes, all faults, 1 to 4 clients"].append(speed)
        context.say(f"simulation, round {number + 1} of {rounds}")
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    return Section(
        name="simulation",
        title="The simulator",
        method=(
            "Virtual seconds per second of CPU of one process, 60 virtual seconds a run, every invariant checked. "
            "Without faults from the first leader on; with all faults a seed for each round, its recovery included."
        ),
        columns=("what", "median", "least", "most"),
        rows=tuple(
            (name, f"{medians[name]:.0f}", f"{min(values):.0f}", f"{max(values):.0f}")
            for name, values in speeds.items()
        ),
        aims=tuple(
            Aim(f"{name}: at least {aim:.0f} virtual seconds a second", f"{medians[name]:.0f}", medians[name] >= aim)
            for name, aim in AIMS.items()
        ),
        data={"virtual seconds per CPU second": speeds},
    )


async def _speed(*arguments: str) -> float:
    answer = json.loads(await run_to_end([*PROGRAM, *arguments], seconds=600))
    return float(answer["virtual_s"]) / float(answer["cpu_s"])
