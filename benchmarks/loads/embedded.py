"""Run a node of a quorum, let it lead, and read behind barriers in it: `python -m benchmarks.loads.embedded FILE …`."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import click
import structlog
import trio

from benchmarks.measurement import LoadResult, Stopwatch
from kraft_trio import Node, load_config, open_node


async def load(
    properties: str, overrides: dict[str, str], in_flight: int, warm_up_seconds: float, seconds: float
) -> LoadResult:
    """Keep `in_flight` barriers outstanding for that time, in the leader's process."""
    config = load_config(properties, overrides).config
    async with open_node(config) as node:
        await node.wait_for_leader()
        await node.transfer_leadership(config.node_id)
        await node.read_barrier()
        return await _read(node, in_flight, Stopwatch("embedded", warm_up_seconds, seconds))


async def _read(node: Node, in_flight: int, watch: Stopwatch) -> LoadResult:
    async def work() -> None:
        while (began := time.perf_counter()) < watch.end:
            await node.read_barrier()
            watch.record(began, time.perf_counter())

    async with trio.open_nursery() as nursery:
        for _ in range(in_flight):
            nursery.start_soon(work)
    return watch.result()


@click.command(help=__doc__)
@click.argument("properties")
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE")
@click.option("--in-flight", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--warm-up-seconds", type=float, default=1.0, show_default=True)
@click.option("--seconds", type=float, default=5.0, show_default=True)
def main(properties: str, overrides: Sequence[str], in_flight: int, warm_up_seconds: float, seconds: float) -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(click.get_text_stream("stderr")),
    )
    settings = dict(text.split("=", 1) for text in overrides)
    click.echo(trio.run(load, properties, settings, in_flight, warm_up_seconds, seconds).to_json())


if __name__ == "__main__":
    main()
