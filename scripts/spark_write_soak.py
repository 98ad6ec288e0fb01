"""A streaming query that writes, while its tasks, executors, driver and the quorum's leader are killed at random.

Finally, every row of its micro-batches must be in the log once, and in the order of its partition.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import click

from harness.quorum import Quorum
from harness.segments import written_size
from harness.waiting import wait_patiently, wait_until
from scripts.common.run import running
from scripts.common.verdict import Verdict
from scripts.spark_write_query import PARTITIONS, ROWS
from tests.spark.conftest import SCRUBBED
from tests.spark.live.reading import committed_rows
from tests.spark.test_two_workers import home_with_room_to_work
from tests.support.programs import REPOSITORY

MASTER: Final = "local-cluster[2,2,600]"
KILLS: Final = {"task": 20, "leader": 18, "executor": 7, "driver": 5}
PAUSE_BYTES: Final = 120_000
"""The most that the log grows between two kills: about the rows of a micro-batch."""
PATIENCE_S: Final = 600.0
"""How long anything may take on a machine that others use, too."""
FINAL_MICRO_BATCHES: Final = 2
"""How many must be done after the last kill."""

_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_DRIVER: Final = "SparkSubmit"
_WORKER: Final = "pyspark.daemon"


@attrs.frozen
class Process:
    pid: int
    parent: int
    started: str
    """When, in ticks since the machine's start: tells it from a later process with that id."""
    command: str

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            if _process(self.pid) == self:
                os.kill(self.pid, signal.SIGKILL)


def _process(pid: int) -> Process | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return Process(pid, int(fields[1]), fields[19], command)


def _descendants(pid: int) -> list[Process]:
    """All processes below that one."""
    processes = [found for entry in os.listdir("/proc") if entry.isdecimal() and (found := _process(int(entry)))]
    below = {pid}
    while more := {process.pid for process in processes if process.parent in below} - below:
        below |= more
    return [process for process in processes if process.pid in below and process.pid != pid]


class Query:
    """The query in a process of its own, started again from its checkpoint whenever it has ended."""

    def __init__(self, quorum: Quorum, directory: Path, master: str, *, exactly_once: bool = True) -> None:
        self._arguments = (quorum.bootstrap_servers, str(directory), master, str(exactly_once).lower())
        self._directory = directory
        directory.mkdir()
        environment = {name: value for name, value in os.environ.items() if name not in SCRUBBED}
        self._environment = environment | {
            "SPARK_HOME": str(home_with_room_to_work(directory / "home")),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._popen: subprocess.Popen[bytes] | None = None
        self._seen: set[Process] = set()
        self.failures = 0
        """How often it ended by itself."""

    def start(self) -> None:
        with open(self._directory / "output", "ab") as output:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "scripts.spark_write_query", *self._arguments],
                cwd=REPOSITORY,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def processes(self) -> list[Process]:
        """What runs below the driver's Python."""
        assert self._popen is not None
        if self._popen.poll() is not None:
            self.failures += 1
            self.start()
        found = _descendants(self._popen.pid)
        self._seen.update(found)
        return found

    def task_processes(self) -> list[Process]:
        """The Python workers of executors: children of a daemon that is an executor's child."""
        found = {process.pid: process for process in self.processes()}

        def is_below_executor(process: Process | None) -> bool:
            while process is not None:
                if _EXECUTOR in process.command:
                    return True
                process = found.get(process.parent)
            return False

        workers = [process for process in found.values() if _WORKER in process.command]
        daemons = {process.pid for process in workers if is_below_executor(process)}
        return [process for process in workers if process.parent in daemons]

    def executors(self) -> list[Process]:
        return [process for process in self.processes() if _EXECUTOR in process.command]

    def kill_driver(self) -> None:
        """Its Python and its JVM.  Executors and their tasks end when they notice, and may write until then."""
        assert self._popen is not None
        jvms = [process for process in self.processes() if _DRIVER in process.command]
        self._popen.kill()
        for jvm in jvms:
            jvm.kill()
        self._popen.wait()

    def end(self) -> None:
        """Kill everything that is left of all drivers."""
        if self._popen is not None:
            self.kill_driver()
        for process in self._seen:
            process.kill()

    @property
    def done(self) -> int:
        """How many micro-batches are."""
        numbers = [int(path.name) for path in (self._directory / "checkpoint" / "commits").glob("[0-9]*")]
        return max(numbers, default=-1) + 1

    def repeated_rows(self) -> dict[int, int]:
        """How many rows of each micro-batch were in the log already when they were sent for the last time."""
        files = (self._directory / "offsets").glob("[0-9]*.json")
        told = {int(file.stem): json.loads(file.read_text())["partitions"] for file in files}
        return {number: sum(task["repeated"] for task in partitions) for number, partitions in told.items()}

    def output(self) -> str:
        return (self._directory / "output").read_text(errors="replace")


@attrs.define
class Outcome:
    """What was killed, and what the log has."""

    kills: dict[str, int]
    seconds: float
    micro_batches: int
    rows: int
    """Rows of the micro-batches that are done."""
    completed_from_attempts: int
    """Micro-batches some rows of which were in the log already."""
    recognized_rows: int
    query_failures: int
    missing: int
    repeated: int
    out_of_order: int

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.repeated or self.out_of_order)


def judge(numbers: Sequence[int], micro_batches: int) -> tuple[int, int, int]:
    """How many rows of the micro-batches that are done are missing, and how many rows are repeated or out of order.

    Row n is of micro-batch n // ROWS and of partition n % PARTITIONS.  The next micro-batch may be there in part.
    """
    times = Counter(numbers)
    missing = sum(number not in times for number in range(micro_batches * ROWS))
    repeated = sum(count - 1 for count in times.values())
    unexpected = sum(number >= (micro_batches + 1) * ROWS for number in times)
    orders = [[number for number in numbers if number % PARTITIONS == partition] for partition in range(PARTITIONS)]
    out_of_order = sum(
        order != list(range(partition, partition + PARTITIONS * len(order), PARTITIONS))
        for partition, order in enumerate(orders)
    )
    return missing, repeated + unexpected, out_of_order


def soak(quorum: Quorum, query: Query, kills: Mapping[str, int], seed: int) -> Outcome:
    """`quorum` runs.  Raises Overdue if something takes too long."""
    choose = random.Random(seed)
    planned = [kind for kind, number in kills.items() for _ in range(number)]
    choose.shuffle(planned)
    began_at = time.monotonic()
    query.start()
    try:
        for number, kind in enumerate(planned, 1):
            _wait_for_rows(quorum, query, choose.randint(1, PAUSE_BYTES))
            _kill(kind, quorum, query, choose)
            click.echo(f"{time.monotonic() - began_at:6.0f} s  kill {number}: {kind}  ({query.done} done)", err=True)
        wanted = query.done + FINAL_MICRO_BATCHES

        def is_done() -> bool:
            query.processes()
            return query.done >= wanted

        wait_until(f"{wanted} micro-batches are done", is_done, PATIENCE_S, 0.5)
    finally:
        query.end()
    wait_patiently("all nodes catch up", quorum.wait_until_caught_up, PATIENCE_S)
    numbers = [int((value or b"").decode().rstrip(".")) for _, value in committed_rows(quorum.nodes[1])]
    missing, repeated, out_of_order = judge(numbers, query.done)
    recognized = query.repeated_rows()
    return Outcome(
        kills=dict(kills),
        seconds=round(time.monotonic() - began_at, 1),
        micro_batches=query.done,
        rows=query.done * ROWS,
        completed_from_attempts=sum(rows > 0 for rows in recognized.values()),
        recognized_rows=sum(recognized.values()),
        query_failures=query.failures,
        missing=missing,
        repeated=repeated,
        out_of_order=out_of_order,
    )


def _wait_for_rows(quorum: Quorum, query: Query, size: int) -> None:
    """Until the log has grown by so many bytes, so that what is killed was at work."""
    before = _log_bytes(quorum)

    def has_grown() -> bool:
        query.processes()
        return _log_bytes(quorum) >= before + size

    wait_until(f"the log grows by {size} bytes", has_grown, PATIENCE_S, 0.05)


def _log_bytes(quorum: Quorum) -> int:
    """How much is written in the longest log."""
    segments = {node.id: node.directory.glob("*-0/*.log") for node in quorum.nodes.values()}
    return max(sum(written_size(segment) for segment in found) for found in segments.values())


def _kill(kind: str, quorum: Quorum, query: Query, choose: random.Random) -> None:
    """Kill one of that kind as soon as there is one."""
    match kind:
        case "task":
            choose.choice(wait_until("a task runs", query.task_processes, PATIENCE_S)).kill()
        case "executor":
            choose.choice(wait_until("an executor runs", query.executors, PATIENCE_S)).kill()
        case "driver":
            query.kill_driver()
            query.start()
        case "leader":
            leader = wait_patiently("a leader", quorum.leader, PATIENCE_S)
            leader.kill()
            leader.start()


@click.command()
@click.option("--tasks", default=KILLS["task"], show_default=True, help="Python workers of executors to kill.")
@click.option("--leaders", default=KILLS["leader"], show_default=True, help="Leaders of the quorum to kill.")
@click.option("--executors", default=KILLS["executor"], show_default=True, help="Executors to kill.")
@click.option("--drivers", default=KILLS["driver"], show_default=True, help="Drivers to kill.")
@click.option("--master", default=MASTER, show_default=True, help="Where Spark runs.")
@click.option("--at-least-once", is_flag=True, help="With exactlyOnce=false, to see what that costs.")
@click.option("--seed", default=0, show_default=True, help="Order and times of the kills.")
def main(tasks: int, leaders: int, executors: int, drivers: int, master: str, at_least_once: bool, seed: int) -> None:
    """Run the soak, print a table of the kills and the results as JSON; exit with 1 unless each row is there once."""
    kills = {"task": tasks, "leader": leaders, "executor": executors, "driver": drivers}
    with running("spark-write-soak", "query") as run:
        quorum = Quorum(run.home)
        query = Query(quorum, run.home / "query", master, exactly_once=not at_least_once)
        try:
            quorum.start()
            outcome = soak(quorum, query, kills, seed)
        except BaseException:
            click.echo(query.output()[-6000:], err=True)
            raise
        finally:
            query.end()
            quorum.kill_all()
        click.echo(json.dumps({**attrs.asdict(outcome), "exact": outcome.is_exact}, indent=2))
        for kind, number in kills.items():
            run.judged(Verdict(kind, {"kills": str(number)}, held="survived"))
        broken = () if outcome.is_exact else ("rows are missing, repeated or out of order",)
        run.judged(Verdict("the rows", {"kills": str(sum(kills.values()))}, broken, held="are there once, in order"))


if __name__ == "__main__":
    main()
