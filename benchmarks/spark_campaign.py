"""Campaigns of the simulator with Spark: overhead compared with a process pool, and gain from a second core."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable

from benchmarks.children import run_to_end
from benchmarks.context import Context
from benchmarks.report import Aim, Section

PROGRAM = (sys.executable, "-m", "benchmarks.loads.spark_campaign")
ALLOWED_SECONDS = 1200.0
VIRTUAL_SECONDS = 10
AIM_OVERHEAD = 0.08
AIM_SCALING = 1.7
WAYS = (("pool", 2), ("spark", 2), ("pool", 1), ("spark", 1))
"""In the order in which a round has them: what is compared most is measured side by side."""
LABELS = {"pool": "process pool", "spark": "Spark"}

Runs = dict[tuple[str, int], list[dict[str, float]]]
"""What the program has said, by way and jobs; a run of each a round."""


async def measure(context: Context) -> Section:
    rounds = context.pick(5, 1)
    seeds = context.pick(120, 48)
    runs: Runs = {way: [] for way in WAYS}
    for number in range(rounds):
        for way, jobs in WAYS:
            with context.fresh_directory("spark-campaign") as directory:
                flags = ("--jobs", str(jobs), "--seeds", str(seeds), "--seconds", str(VIRTUAL_SECONDS))
                command = [*PROGRAM, way, str(directory / "out"), *flags]
                runs[way, jobs].append(json.loads(await run_to_end(command, ALLOWED_SECONDS)))
        last = ", ".join(f"{way} {jobs}: {some[-1]['seconds']:.1f} s" for (way, jobs), some in runs.items())
        context.say(f"campaign, round {number + 1} of {rounds}: {last}")
    return section_of(runs)


def section_of(runs: Runs) -> Section:
    """The section of what was measured, a run of each way a round."""
    one = runs["spark", 2][0]
    overhead = _median_ratio(_all(runs, "spark"), _all(runs, "pool"), _steady) - 1
    whole = _median_ratio(runs["spark", 2], runs["pool", 2], _whole) - 1
    scaling = {way: _median_ratio(runs[way, 1], runs[way, 2], _steady) for way in LABELS}
    begin_s = {way: statistics.median(run["first_s"] for run in runs[way, 2]) for way in LABELS}
    session_s = statistics.median(run["session_s"] for run in runs["spark", 2])
    return Section(
        name="spark-campaign",
        title="Campaigns over Spark",
        method=(
            f"{one['outcomes']:.0f} seeds with {VIRTUAL_SECONDS} virtual seconds of all faults each, results kept as "
            f"Parquet; the same {one['chunks']:.0f} chunks for Spark and for a process pool. Seconds are from the "
            "first chunk handed out to the last outcome; the session is there before. What is compared is the time "
            "from the first outcome on, when processes have been started and have imported what they need. Runs "
            "alternate; ratios are medians over the rounds, those of Spark and pool over one and two at a time."
        ),
        columns=("what", "median s", "least s", "most s", "virtual s a second"),
        rows=tuple(_row(f"{LABELS[way]}, {jobs} at a time", runs[way, jobs]) for way, jobs in WAYS),
        aims=(
            Aim(
                f"from the first outcome on at most {AIM_OVERHEAD:.0%} longer than a process pool",
                f"{overhead:+.1%}",
                overhead <= AIM_OVERHEAD,
            ),
            Aim(
                f"1 → 2 cores: at least {AIM_SCALING} times", f"{scaling['spark']:.2f}", scaling["spark"] >= AIM_SCALING
            ),
        ),
        notes=(
            f"The process pool's own scaling 1 → 2 cores: {scaling['pool']:.2f} times.",
            f"Until the first outcome: process pool {begin_s['pool']:.1f} s, Spark {begin_s['spark']:.1f} s, and its "
            f"session {session_s:.1f} s before that. With that of the tasks, two at a time: {whole:+.1%}.",
        ),
        data={f"{way}, {jobs} at a time": found for (way, jobs), found in runs.items()},
    )


def _all(runs: Runs, way: str) -> list[dict[str, float]]:
    return [*runs[way, 2], *runs[way, 1]]


def _whole(run: dict[str, float]) -> float:
    return run["seconds"]


def _steady(run: dict[str, float]) -> float:
    return run["seconds"] - run["first_s"]


def _median_ratio(
    some: list[dict[str, float]], others: list[dict[str, float]], of: Callable[[dict[str, float]], float]
) -> float:
    return statistics.median(of(a) / of(b) for a, b in zip(some, others, strict=True))


def _row(label: str, runs: list[dict[str, float]]) -> tuple[str, ...]:
    seconds = [run["seconds"] for run in runs]
    speed = statistics.median(run["virtual_s"] / run["seconds"] for run in runs)
    return (
        label,
        *(f"{value:.1f}" for value in (statistics.median(seconds), min(seconds), max(seconds))),
        f"{speed:.0f}",
    )
