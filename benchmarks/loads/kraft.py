"""Load our leader over `kraft_trio.wire`: `python -m benchmarks.loads.kraft HOST PORT --in-flight 64 …`.

`--operation produce` commits one record with acks=all.  `read` asks for a read index, for which a linearizable read
waits.  `floor` is a ListOffsets request: the same path through client and server, without a commit.  Each request in
flight has a connection of its own, as a Kafka server answers the requests of one connection one after the other.
"""

from __future__ import annotations

import time

import click
import trio

from benchmarks.kraft_client import ask_cluster_id, ask_latest_offset, ask_read_index, commit, connect, produce_request
from benchmarks.measurement import LoadResult, Stopwatch
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.client_network import client_network
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.network import Network


async def load(
    endpoint: Endpoint,
    operation: str,
    in_flight: int,
    value_bytes: int,
    warm_up_seconds: float,
    seconds: float,
    network: Network | None = None,
) -> LoadResult:
    """Keep `in_flight` requests outstanding for that time.  Raises NetworkError, or BenchmarkError if refused."""
    request = produce_request(b"x" * value_bytes)
    connections = [await connect(endpoint, network) for _ in range(in_flight)]
    cluster_id = await ask_cluster_id(connections[0])
    watch = Stopwatch("wire.connection", warm_up_seconds, seconds)

    async def work(connection: Connection) -> None:
        while (began := time.perf_counter()) < watch.end:
            if operation == "produce":
                await commit(connection, request)
            elif operation == "read":
                await ask_read_index(connection, cluster_id)
            else:
                await ask_latest_offset(connection)
            watch.record(began, time.perf_counter())

    async with trio.open_nursery() as nursery:
        for connection in connections:
            nursery.start_soon(work, connection)
    result = watch.result()
    for connection in connections:
        await connection.aclose()
    return result


@click.command(help=__doc__)
@click.argument("host")
@click.argument("port", type=int)
@click.option("--operation", type=click.Choice(["produce", "read", "floor"]), default="produce", show_default=True)
@click.option("--in-flight", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option("--value-bytes", type=click.IntRange(0), default=1024, show_default=True)
@click.option("--warm-up-seconds", type=float, default=1.0, show_default=True)
@click.option("--seconds", type=float, default=5.0, show_default=True)
@click.option("--command-config", help="A client's .properties file, which says how to connect; by default TCP.")
def main(
    host: str,
    port: int,
    operation: str,
    in_flight: int,
    value_bytes: int,
    warm_up_seconds: float,
    seconds: float,
    command_config: str | None,
) -> None:
    endpoint = Endpoint(host, port)
    network = None if command_config is None else client_network(command_config)
    result = trio.run(load, endpoint, operation, in_flight, value_bytes, warm_up_seconds, seconds, network)
    click.echo(result.to_json())


if __name__ == "__main__":
    main()
