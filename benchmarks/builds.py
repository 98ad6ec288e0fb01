"""The commits of quorums whose nodes run on other builds of Python."""

from __future__ import annotations

import hashlib
import statistics
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import attrs

from benchmarks.children import run_to_end
from benchmarks.context import Context, run_load
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.measurement import LoadResult, median_result
from benchmarks.processes import cpu_seconds
from benchmarks.report import Section

REPOSITORY: Final = Path(__file__).parents[1]
LOCK: Final = REPOSITORY / "requirements" / "run.lock"
INSTALL_SECONDS: Final = 600
IN_FLIGHT: Final = (1, 64)
COLUMNS: Final = ("nodes' Python, in flight", "p50 ms", "p99 ms", "per second", "servers' CPU µs/commit", "p50", "CPU")
DESCRIBE: Final = (
    "import platform as p; print(p.python_version(), '(' + ' '.join(p.python_build()) + ',', p.python_compiler() + ')')"
)
METHOD: Final = (
    "Single records of 1 KiB sent to the leader of three, by the same client for each. All quorums run all the time "
    "and are loaded in turn; medians over {rounds} round(s) of {seconds} s. The last columns are ratios to the first."
)


@attrs.frozen
class Run:
    """One round of one build, or of another kind of cluster."""

    result: LoadResult
    cpu_us: float
    """Processor time of the three servers for one commit."""


Runs = dict[int, dict[str, list[Run]]]
"""The rounds by how many are in flight, and by build."""


async def measure(context: Context) -> Section:
    rounds, seconds = context.pick(3, 1), context.pick(6, 2)
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(context.fresh_directory("builds"))
        clusters: dict[str, KraftCluster] = {}
        for number, wanted in enumerate(context.pythons):
            python = await environment(Path(wanted))
            build = (await run_to_end([python, "-c", DESCRIBE], seconds=60)).strip()
            context.say(f"starting three nodes on {build}")
            started = KraftCluster.started(directory / f"{number}", context.overrides, python=python)
            clusters[build] = await stack.enter_async_context(started)
        runs: Runs = {in_flight: {build: [] for build in clusters} for in_flight in IN_FLIGHT}
        for number in range(rounds):
            for in_flight, by_build in runs.items():
                for build in by_build if number % 2 == 0 else reversed(by_build):
                    by_build[build].append(await load_round(clusters[build], in_flight, seconds))
            context.say(f"builds of Python, round {number + 1} of {rounds}")
    return section_of(runs, METHOD.format(rounds=rounds, seconds=seconds))


async def environment(python: Path) -> str:
    """Make a virtual environment with what a node needs, once for each interpreter; its interpreter.

    Raises BenchmarkError.
    """
    wanted = f"{python}\n{LOCK.read_text()}"
    directory = REPOSITORY / "build" / f"python-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    own, ready = str(directory / "bin" / "python"), directory / "ready"
    if not ready.exists():
        await run_to_end([str(python), "-m", "venv", "--clear", str(directory)], INSTALL_SECONDS)
        install = (own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        await run_to_end([*install, "-r", str(LOCK), "-e", str(REPOSITORY)], INSTALL_SECONDS)
        ready.touch()
    return own


async def load_round(cluster: KraftCluster, in_flight: int, seconds: float, *more: str) -> Run:
    """Load the leader; `more` are options of the load program."""
    endpoint, pids = cluster.endpoint(await cluster.leader()), cluster.pids.values()
    before = cpu_seconds(pids)
    options = (endpoint.host, str(endpoint.port), "--in-flight", str(in_flight), *more)
    result = await run_load("kraft", *options, seconds=seconds)
    return Run(result, (cpu_seconds(pids) - before) / result.all_operations * 1e6)


def section_of(runs: Runs, method: str) -> Section:
    """Make the table: a row for each number in flight and each build."""
    rows = []
    for in_flight, by_build in runs.items():
        first: tuple[float, float] | None = None
        for build, rounds in by_build.items():
            median = median_result([run.result for run in rounds])
            cpu_us = statistics.median(run.cpu_us for run in rounds)
            first = first or (median.p50_ms, cpu_us)
            rows.append(
                (
                    f"{build}, {in_flight}",
                    *(f"{median.p50_ms:.3f}", f"{median.p99_ms:.3f}", f"{median.per_second:,.0f}", f"{cpu_us:.0f}"),
                    *(f"{median.p50_ms / first[0]:.2f} ×", f"{cpu_us / first[1]:.2f} ×"),
                )
            )
    return Section(
        name="builds",
        title="Builds of Python",
        method=method,
        columns=COLUMNS,
        rows=tuple(rows),
        data={
            str(in_flight): {build: [attrs.asdict(run) for run in rounds] for build, rounds in by_build.items()}
            for in_flight, by_build in runs.items()
        },
    )
