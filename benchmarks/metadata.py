"""Kafka's metadata as tables: typed records, the state at the end, and changes, of one large log.

Apache Kafka's own dump of the same files is measured in the same run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import trio

from benchmarks.children import BenchmarkError, run_to_end
from benchmarks.context import Context
from benchmarks.report import Section
from harness.kafka import java, why_no_kafka

PROGRAM = (sys.executable, "-m", "benchmarks.loads.metadata")
SPARK = (sys.executable, "-m", "benchmarks.loads.spark_query", "read", "--cores", "2", "--rounds", "1")
IN_SPARK = {"metadata": "records of all types, Spark on two cores", "partitions": "partitions at the end, Spark"}
SHRUNK = "SELECT count(*) FROM partitions WHERE len(isr) < len(replicas)"
SECONDS = 3600.0
TOPICS = 10_000
WAYS = {
    "one-type": "records of one type",
    "all-types": "records of all types",
    "state": "partitions at the end",
    "changes": "changes, with JSON before and after",
}


async def measure(context: Context) -> Section:
    rows: list[tuple[str, ...]] = []
    data: dict[str, Any] = {}
    with context.fresh_directory("metadata") as directory:
        path = directory / "controller"
        size = context.pick(1 << 30, 64 << 20)
        flags = ["--topics", str(context.pick(TOPICS, 1000)), "--total-bytes", str(size)]
        written = json.loads(await run_to_end([*PROGRAM, "write", str(path), *flags], SECONDS))
        context.say(f"{written['records']:,} records, {written['bytes'] / 2**20:,.0f} MiB")
        for way, label in WAYS.items():
            run = json.loads(await run_to_end([*PROGRAM, "read", way, str(path)], SECONDS))
            rows.append(_row(label, written["records"], run))
            data[way] = run
            context.say(" ".join(rows[-1]))
        for label, arguments in {
            "`kraft metadata partitions`, printed": ("partitions",),
            "`kraft metadata sql` over partitions, with DuckDB": ("sql", SHRUNK),
        }.items():
            run = await trio.to_thread.run_sync(_command, (*arguments, str(path)))
            rows.append(_row(label, written["records"], run))
            data[arguments[0]] = run
            context.say(" ".join(rows[-1]))
        for content, label in IN_SPARK.items():
            answer = await run_to_end([*SPARK, "--content", content, str(path)], SECONDS)
            run = json.loads(answer.splitlines()[-1])
            rows.append((label, "", f"{written['records'] / run['seconds'][0]:,.0f}", ""))
            data[f"spark-{content}"] = run
            context.say(" ".join(rows[-1]))
        missing = why_no_kafka("kafka-tools") or why_no_kafka()
        if missing is None:
            run = await trio.to_thread.run_sync(_kafkas_dump, path)
            rows.append(_row("kafka-dump-log, printed", written["records"], run))
            data["kafka"] = run
    return Section(
        name="metadata",
        title="Kafka's metadata as tables",
        method=(
            f"A log of {written['records']:,} records, {written['bytes'] / 2**20:,.0f} MiB: {TOPICS:,} topics of 12 "
            "partitions, and changes of these.  One process each, files in the system's cache.  Printed output goes to "
            "/dev/null."
        ),
        columns=("what", "records a core-second", "records a second", "peak MiB"),
        rows=tuple(rows),
        notes=() if missing is None else (f"kafka-dump-log: {missing}",),
        data=data,
    )


def _row(label: str, records: int, run: dict[str, Any]) -> tuple[str, ...]:
    return label, f"{records / run['cpu_s']:,.0f}", f"{records / run['seconds']:,.0f}", f"{run['peak_mib']:,.0f}"


def _command(arguments: tuple[str, ...]) -> dict[str, float]:
    return _timed([str(Path(sys.executable).with_name("kraft")), "metadata", *arguments])


def _kafkas_dump(path: Path) -> dict[str, float]:
    files = ",".join(map(str, sorted(path.glob("*/*.log"))))
    return _timed(java("kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", files))


def _timed(command: list[str]) -> dict[str, float]:
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise BenchmarkError(f"{command[0]}: exit code {child.returncode}")
    return {
        "seconds": time.perf_counter() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mib": used.ru_maxrss / 1024,
    }
