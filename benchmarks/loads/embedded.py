"""Run a node of a quorum, and load it in its process: `python -m benchmarks.loads.embedded FILE …`.

`barrier` is `Node.read_barrier`, `append` is `Node.append` of one record, and `execute` puts into the key-value store
by `Node.execute`.  The node leads, or with `--follower` another node does.  `--rate` makes an open loop: operations
start at that rate, however long the others take, and a latency counts from the time at which its operation was due.
"""

from __future__ import annotations

import itertools
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

import click
import structlog
import trio

from benchmarks.loads.precise_timer import PreciseTimer
from benchmarks.measurement import LoadResult, Stopwatch
from kraft_trio import Node, load_config, open_node
from kraft_trio.kv.command_serde import CommandSerde
from kraft_trio.kv.machine import KvMachine
from kraft_trio.kv.requests import PutRequest

KEYS: Final = 1000


async def load(
    properties: str,
    overrides: dict[str, str],
    operation: str,
    follower: bool,
    rate: float,
    in_flight: int,
    value_bytes: int,
    warm_up_seconds: float,
    seconds: float,
) -> LoadResult:
    """Keep `in_flight` operations outstanding for that time, or start them at that rate, in the node's process."""
    config = load_config(properties, overrides).config
    opened: AbstractAsyncContextManager[Node[Any, Any]] = open_node(config)
    if operation == "execute":
        opened = open_node(config, serde=CommandSerde(), state_machine=KvMachine())
    async with opened as node:
        await node.wait_for_leader()
        if not follower:
            await node.transfer_leadership(config.node_id)
        await node.read_barrier()
        operations = _operations(node, operation, bytes(value_bytes))
        watch = Stopwatch("embedded", warm_up_seconds, seconds)
        if rate:
            return await open_loop(operations, rate, watch)
        return await _load(operations, in_flight, watch)


def _operations(node: Node[Any, Any], operation: str, value: bytes) -> Iterator[Callable[[], Awaitable[object]]]:
    if operation == "execute":
        return _puts(node, value)
    return itertools.repeat(partial(node.append, [value]) if operation == "append" else node.read_barrier)


def _puts(node: Node[Any, Any], value: bytes) -> Iterator[Callable[[], Awaitable[object]]]:
    for number in itertools.cycle(range(KEYS)):
        yield partial(node.execute, PutRequest(b"bench/%06d" % number, value))


async def _load(operations: Iterator[Callable[[], Awaitable[object]]], in_flight: int, watch: Stopwatch) -> LoadResult:
    async def work() -> None:
        while (began := time.perf_counter()) < watch.end:
            await next(operations)()
            watch.record(began, time.perf_counter())

    async with trio.open_nursery() as nursery:
        for _ in range(in_flight):
            nursery.start_soon(work)
    return watch.result()


async def open_loop(operations: Iterator[Callable[[], Awaitable[object]]], rate: float, watch: Stopwatch) -> LoadResult:
    """Start operations at that rate until the watch ends, and wait for all."""

    async def work(due: float) -> None:
        await next(operations)()
        watch.record(due, time.perf_counter())

    start = time.perf_counter()
    with PreciseTimer() as timer:
        async with trio.open_nursery() as nursery:
            for number in itertools.count():
                due = start + number / rate
                if due >= watch.end:
                    break
                await timer.sleep_until(due)
                watch.begin(due)
                nursery.start_soon(work, due)
    return watch.result()


@click.command(help=__doc__)
@click.argument("properties")
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE")
@click.option("--operation", type=click.Choice(["barrier", "append", "execute"]), default="barrier", show_default=True)
@click.option("--follower", is_flag=True)
@click.option("--rate", type=click.FloatRange(0), default=0, help="Operations a second; 0 for a closed loop.")
@click.option("--in-flight", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--value-bytes", type=click.IntRange(0), default=1024, show_default=True)
@click.option("--warm-up-seconds", type=float, default=1.0, show_default=True)
@click.option("--seconds", type=float, default=5.0, show_default=True)
def main(properties: str, overrides: Sequence[str], **options: Any) -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    settings = dict(text.split("=", 1) for text in overrides)
    click.echo(trio.run(partial(load, properties, settings, **options)).to_json())


if __name__ == "__main__":
    main()
