"""Open connections to a node, say so, and keep them idle until stdin ends.

Each connection asks for the versions, as a client's does at its beginning.
"""

from __future__ import annotations

import sys

import click
import trio

from benchmarks.kraft_client import connect
from kraft_trio.protocol.types import Endpoint

AT_ONCE = 100


async def hold(endpoint: Endpoint, number: int) -> None:
    """Raises NetworkError if the node refuses one."""
    connections = []

    async def open_one() -> None:
        connections.append(await connect(endpoint))

    while len(connections) < number:
        async with trio.open_nursery() as nursery:
            for _ in range(min(AT_ONCE, number - len(connections))):
                nursery.start_soon(open_one)
    click.echo(f"opened {len(connections)}")
    await trio.to_thread.run_sync(sys.stdin.read)


@click.command(help=__doc__)
@click.argument("host")
@click.argument("port", type=int)
@click.option("--number", type=click.IntRange(1), required=True)
def main(host: str, port: int, number: int) -> None:
    trio.run(hold, Endpoint(host, port), number)


if __name__ == "__main__":
    main()
