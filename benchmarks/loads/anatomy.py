"""Run a node of a quorum and count what one operation takes it: `python -m benchmarks.loads.anatomy FILE leads …`."""

from __future__ import annotations

import cProfile
import json
import logging
import os
import pstats
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import click
import structlog
import trio

from benchmarks.measurement import own_cpu_seconds
from kraft_trio import Node, load_config, open_node

VALUE: Final = b"x" * 1024
CODEC: Final = ("encode_request", "encode_response_parts", "decode_request", "decode_response")
TEMPLATES: Final = {"parts": "encoded", "read": "decoded"}
"""What the methods of the templates of frames do, instead of the codec."""

Operations = Callable[[int], Awaitable[object]]


class Rounds(trio.abc.Instrument):
    """Counts the scheduler's rounds, and the steps of tasks in them."""

    def __init__(self) -> None:
        self.rounds = 0
        self.steps = 0

    def after_io_wait(self, timeout: float) -> None:
        self.rounds += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1


async def lead(properties: str, operation: str, number: int) -> dict[str, Any]:
    """Lead, and run the operation so many times, one after another."""
    config = load_config(properties).config
    async with open_node(config) as node:
        await node.wait_for_leader()
        await node.transfer_leadership(config.node_id)

        async def run(times: int) -> None:
            for _ in range(times):
                if operation == "barrier":
                    await node.read_barrier()
                else:
                    await node.append([VALUE])

        return await count(run, number)


async def follow(properties: str, number: int) -> dict[str, Any]:
    """Follow a leader that others load with one commit at a time."""
    async with open_node(load_config(properties).config) as node:
        return await count(lambda times: _commits(node, times), number)


async def _commits(node: Node[bytes], number: int) -> None:
    end = (node.log.high_watermark or 0) + number
    while (node.log.high_watermark or 0) < end:
        await node.log.changed.park()


async def count(run: Operations, number: int) -> dict[str, Any]:
    """Everything for one operation.  Each kind of count has a run of its own, because counting takes time."""
    await run(number)
    cpu_s = own_cpu_seconds()
    await run(number)
    cpu_s = own_cpu_seconds() - cpu_s
    rounds = Rounds()
    trio.lowlevel.add_instrument(rounds)
    await run(number)
    trio.lowlevel.remove_instrument(rounds)
    profile = cProfile.Profile()
    profile.enable()
    await run(number)
    profile.disable()
    counts: Counter[str] = Counter({"CPU, µs": round(cpu_s * 1e6)})
    counts += Counter({"rounds of the scheduler": rounds.rounds, "steps of tasks": rounds.steps})
    counts += calls(profile) + await system_calls(run, number)
    return {name: counted / number for name, counted in counts.items()}


def calls(profile: cProfile.Profile) -> Counter[str]:
    """Calls of Python functions by package, of all functions in C, and of the codec's."""
    counted: Counter[str] = Counter()
    rows: dict[tuple[str, int, str], tuple[int, ...]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, function), (_, times, *_) in rows.items():
        counted[f"calls: {_part(file)}"] += times
        if function in CODEC and file.endswith("wire/codec.py"):
            counted[f"messages {function[:2]}coded"] += times
        if function in TEMPLATES and file.endswith("wire/frame_templates.py"):
            counted[f"messages {TEMPLATES[function]}"] += times
    return counted


def _part(file: str) -> str:
    """The package of a profiled function."""
    if file == "~":
        return "functions in C"
    if "reader of" in file or "writer of" in file:
        return "kraft_trio.wire"
    if "kraft_trio" in file:
        below = file.rpartition("kraft_trio")[2].strip("./>").replace("/", ".").removesuffix(".py").split(".")
        return f"kraft_trio.{below[0]}" if len(below) > 1 else "kraft_trio"
    return "Trio" if any(name in file for name in ("trio", "outcome")) else "others"


async def system_calls(run: Operations, number: int) -> Counter[str]:
    """By name, as strace counts them; empty without strace, or if it may not attach."""
    strace = shutil.which("strace")
    if strace is None:
        return Counter()
    table = trio.Path(f"strace-{os.getpid()}.txt")
    command = [strace, "-f", "-c", "-o", str(table), "-p", str(os.getpid())]
    tracer = await trio.lowlevel.open_process(command, stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    try:
        if b"attached" not in await tracer.stderr.receive_some():
            return Counter()
        await run(number)
    finally:
        tracer.send_signal(signal.SIGINT)
        with trio.CancelScope(shield=True):
            await tracer.wait()
    rows = [line.split() for line in (await table.read_text()).splitlines()[2:-2]]
    await table.unlink()
    return Counter({f"system calls: {row[-1]}": int(row[3]) for row in rows})


@click.command(help=__doc__)
@click.argument("properties")
@click.argument("operation", type=click.Choice(["barrier", "commit", "follow"]))
@click.option("--number", type=click.IntRange(1), default=1000, show_default=True)
def main(properties: str, operation: str, number: int) -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    if operation == "follow":
        counted = trio.run(follow, properties, number)
    else:
        counted = trio.run(lead, properties, operation, number)
    click.echo(json.dumps(counted))


if __name__ == "__main__":
    main()
