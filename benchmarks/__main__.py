"""The command behind `benchmarks/run`."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import attrs
import click
import trio
from rich.console import Console

from benchmarks import (
    anatomy,
    append,
    builds,
    disks,
    etcd_cluster,
    failover,
    growth,
    kv,
    latency,
    machine,
    membership,
    memory,
    metadata,
    observers,
    open_loop,
    open_time,
    reads,
    simulation,
    sizes,
    snapshot_commits,
    snapshot_fetch,
    snapshot_files,
    soak,
    spark_audit,
    spark_campaign,
    spark_plan,
    spark_read,
    spark_stream,
    startup,
    tail,
    throughput,
    timeline,
    tls,
)
from benchmarks.children import BenchmarkError, until_sigterm
from benchmarks.context import Context
from benchmarks.report import Report, Section, now

HERE = Path(__file__).parent
FILE_WIDTH = 140
"""Line width if the output is not a terminal."""

IN_MEMORY = ("tmpfs", "ramfs")

MEASUREMENTS: dict[str, Callable[[Context], Awaitable[Section | list[Section]]]] = {
    "latency": latency.measure,
    "throughput": throughput.measure,
    "reads": reads.measure,
    "anatomy": anatomy.measure,
    "timeline": timeline.measure,
    "tail": tail.measure,
    "tls": tls.measure,
    "kv": kv.measure,
    "append": append.measure,
    "open-loop": open_loop.measure,
    "disks": disks.measure,
    "sizes": sizes.measure,
    "observers": observers.measure,
    "start-up": startup.measure,
    "builds": builds.measure,
    "failover": failover.measure,
    "membership": membership.measure,
    "metadata": metadata.measure,
    "open": open_time.measure,
    "memory": memory.measure,
    "soak": soak.measure,
    "growth": growth.measure,
    "snapshot": snapshot_files.measure,
    "snapshot-fetch": snapshot_fetch.measure,
    "snapshot-commits": snapshot_commits.measure,
    "simulation": simulation.measure,
    "spark-plan": spark_plan.measure,
    "spark-read": spark_read.measure,
    "spark-stream": spark_stream.measure,
    "spark-campaign": spark_campaign.measure,
    "spark-audit": spark_audit.measure,
}

ONLY_NAMED = ("timeline", "disks")
"""Those that draw a picture of the documentation."""


@click.command(help="Measure the quorum, compared with etcd if it is installed.  Without names, measure everything.")
@click.argument("names", nargs=-1, type=click.Choice([*MEASUREMENTS, "all"]))
@click.option("--quick", is_flag=True, help="Fewer and shorter rounds: minutes instead of most of an hour.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=HERE / ".work",
    help="Where to create data directories; must be on a real disk.  [default: benchmarks/.work]",
)
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A configuration key for our nodes.")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    default=[sys.executable],
    metavar="PATH",
    help="An interpreter of Python for `builds`; may be repeated.  [default: the one that runs this]",
)
@click.option(
    "--results", type=click.Path(file_okay=False, path_type=Path), default=HERE / "results", help="Where reports go."
)
def main(
    names: tuple[str, ...],
    quick: bool,
    directory: Path,
    overrides: tuple[str, ...],
    pythons: tuple[str, ...],
    results: Path,
) -> None:
    console = Console(stderr=True, width=None if sys.stderr.isatty() else FILE_WIDTH)
    if wrong := [text for text in overrides if "=" not in text]:
        raise click.BadParameter(f"{wrong[0]!r}: expected KEY=VALUE", param_hint="--override")
    settings = dict(text.split("=", 1) for text in overrides)
    chosen = [name for name in MEASUREMENTS if name not in ONLY_NAMED]
    if names and "all" not in names:
        chosen = list(dict.fromkeys(names))
    directory.mkdir(parents=True, exist_ok=True)
    if (kind := machine.file_system_of(directory)) in IN_MEMORY:
        raise click.BadParameter(f"{directory} is on {kind}, where fsync does nothing", param_hint="--directory")
    with tempfile.TemporaryDirectory(dir=directory) as work:
        measured = partial(_run, console, chosen, quick, Path(work), settings, pythons)
        report = trio.run(until_sigterm, measured)
    report.print_to(Console(width=None if sys.stdout.isatty() else FILE_WIDTH))
    for path in report.write_to(results):
        console.print(f"written: {path}")
    if any(section.failed for section in report.sections):
        sys.exit(1)


async def _run(
    console: Console,
    names: list[str],
    quick: bool,
    directory: Path,
    overrides: dict[str, str],
    pythons: tuple[str, ...],
) -> Report:
    started, began = now(), time.monotonic()
    with console.status("measuring the machine") as status:

        def say(text: str) -> None:
            line = f"[{time.monotonic() - began:6.1f} s] {text}"
            status.update(line)
            console.print(line, markup=False, highlight=False)

        context = Context(quick=quick, directory=directory, overrides=overrides, pythons=pythons, say=say)
        missing = etcd_cluster.why_unavailable()
        etcd_version = None if missing else await etcd_cluster.version()
        here = machine.describe(directory, etcd_version)
        sections: list[Section] = []
        for name in names:
            say(f"{name}:")
            try:
                fsync = machine.fsync_times(directory, machine.FSYNC_SECONDS)
                measured = await MEASUREMENTS[name](context)
                for section in measured if isinstance(measured, list) else [measured]:
                    sections.append(section if section.has_own_disks else attrs.evolve(section, fsync=fsync))
            except* BenchmarkError as group:
                reason = "; ".join(str(error) for error in _leaves(group))
                say(f"{name} FAILED: {reason}")
                sections.append(Section.not_measured(name, reason))
    return Report(
        started=started,
        command=shlex.join(["benchmarks/run", *sys.argv[1:]]),
        revision=_revision(),
        quick=quick,
        overrides=overrides,
        machine=here,
        sections=sections,
    )


def _leaves(group: BaseExceptionGroup[BenchmarkError]) -> Iterator[BenchmarkError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _revision() -> str:
    """The commit measured, and whether the tree had other changes."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return described.stdout.strip()


if __name__ == "__main__":
    main()
