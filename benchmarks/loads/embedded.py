"""Run a node of a quorum, let it lead, and load it in its process: `python -m benchmarks.loads.embedded FILE …`.

`barrier` is `Node.read_barrier`, and `execute` puts into the key-value store by `Node.execute`.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

import click
import structlog
import trio

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
    in_flight: int,
    value_bytes: int,
    warm_up_seconds: float,
    seconds: float,
) -> LoadResult:
    """Keep `in_flight` operations outstanding for that time, in the leader's process."""
    config = load_config(properties, overrides).config
    opened: AbstractAsyncContextManager[Node[Any, Any]] = open_node(config)
    if operation == "execute":
        opened = open_node(config, serde=CommandSerde(), state_machine=KvMachine())
    async with opened as node:
        await node.wait_for_leader()
        await node.transfer_leadership(config.node_id)
        await node.read_barrier()
        operations = _puts(node, bytes(value_bytes)) if operation == "execute" else itertools.repeat(node.read_barrier)
        return await _load(operations, in_flight, Stopwatch("embedded", warm_up_seconds, seconds))


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


@click.command(help=__doc__)
@click.argument("properties")
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE")
@click.option("--operation", type=click.Choice(["barrier", "execute"]), default="barrier", show_default=True)
@click.option("--in-flight", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--value-bytes", type=click.IntRange(0), default=1024, show_default=True)
@click.option("--warm-up-seconds", type=float, default=1.0, show_default=True)
@click.option("--seconds", type=float, default=5.0, show_default=True)
def main(properties: str, overrides: Sequence[str], **options: Any) -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(click.get_text_stream("stderr")),
    )
    settings = dict(text.split("=", 1) for text in overrides)
    click.echo(trio.run(partial(load, properties, settings, **options)).to_json())


if __name__ == "__main__":
    main()
