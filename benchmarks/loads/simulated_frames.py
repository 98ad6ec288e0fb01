"""A frame on the simulated network, compared with a timer of Trio: `python -m benchmarks.loads.simulated_frames
--help`."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Awaitable, Callable
from struct import pack
from typing import Any

import click
import trio

from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.deterministic import run_deterministically
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.network.simulated_network import SimulatedNetwork
from kraft_trio.wire.api import FETCH
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.network import ImmediateStream

BODY = bytes(100)
MAX_FRAME_BYTES = 1 << 20


def _unseen(_message: Message) -> None:
    """What looks at every message, at no cost."""


async def _timers(count: int) -> None:
    """One task that is woken by the clock so often, and does nothing else."""
    for _ in range(count):
        await trio.sleep(0.001)


async def _frames(count: int) -> None:
    """One request and its answer after the other."""
    network = SimulatedNetwork(random.Random(0), on_message=_unseen)
    listener = await network.seen_from("server").listen(Endpoint("server", 9093))
    async with trio.open_nursery() as nursery:
        stream: Any = await network.seen_from("client").connect(listener.endpoint)
        nursery.start_soon(_answer, await listener.accept())
        reader = FrameReader(stream, MAX_FRAME_BYTES)
        for number in range(count // 2):
            await stream.send_all(pack(">ihhi", 8 + len(BODY), FETCH.key, FETCH.max_version, number) + BODY)
            await reader.read()
        nursery.cancel_scope.cancel()


async def _answer(stream: ImmediateStream) -> None:
    reader = FrameReader(stream, MAX_FRAME_BYTES)
    while (frame := await reader.read()) is not None:
        stream.send_now(pack(">i", 4 + len(BODY)) + frame[4:8] + BODY)


def _microseconds_each(load: Callable[[int], Awaitable[None]], count: int) -> float:
    begun = time.process_time()
    run_deterministically(lambda: load(count), seed=0)
    return (time.process_time() - begun) / count * 1e6


@click.command(help=__doc__)
@click.option("--frames", type=click.IntRange(2), default=40_000, help="How many frames are sent in a round.")
@click.option("--rounds", type=click.IntRange(1), default=5, help="The best round counts: others share the machine.")
def main(frames: int, rounds: int) -> None:
    timer_us = min(_microseconds_each(_timers, frames) for _ in range(rounds))
    frame_us = min(_microseconds_each(_frames, frames) for _ in range(rounds))
    click.echo(json.dumps({"timer_us": timer_us, "frame_us": frame_us, "above_trio_us": frame_us - timer_us}))


if __name__ == "__main__":
    main()
