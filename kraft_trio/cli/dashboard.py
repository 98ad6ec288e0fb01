"""`kraft dashboard`: the page that shows a quorum, served on this machine."""

from __future__ import annotations

import time
from typing import Final

import click
import trio

from kraft_trio.cli.quorum.quorum_options import BOOTSTRAP_OPTIONS, FETCH_TIMEOUT_MS, QuorumOptions, given_nodes
from kraft_trio.cli.terminal.config_option import command_config_option
from kraft_trio.cli.terminal.output import echo_line
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.extras import needing
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.client_network import client_network

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 9390


@click.command()
@BOOTSTRAP_OPTIONS[1]
@BOOTSTRAP_OPTIONS[0]
@command_config_option
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=PORT,
    show_default=True,
    help="Port on 127.0.0.1 for the browser; 0: any free port.",
)
@click.option(
    "--fetch-timeout-ms",
    type=WholeNumber(1, 2**31 - 1),
    default=FETCH_TIMEOUT_MS,
    show_default=True,
    help="The quorum's controller.quorum.fetch.timeout.ms, after which a silent voter counts as offline.",
)
@click.pass_context
def dashboard(
    context: click.Context, /, port: int, fetch_timeout_ms: int, command_config: str | None, **nodes: str | None
) -> None:
    """Show a quorum in the browser.

    Asks every node of the quorum, of kraft-trio and of Apache Kafka, and serves one page on 127.0.0.1 until Ctrl-C.  It
    changes nothing.  The nodes are asked only while a page is open.
    """
    nodes = given_nodes(context, nodes)
    if list(nodes.values()).count(None) != 1:
        raise click.UsageError("give one of --bootstrap-controller and --bootstrap-server", context)
    with needing("kv", "kraft dashboard"):
        from kraft_trio.dashboard.quorum_watch import QuorumWatch
        from kraft_trio.dashboard.server import Dashboard
        from kraft_trio.http.binding import bound
    options = QuorumOptions(command_config=command_config, timeout_ms=0, is_from_variable=False, **nodes)
    endpoints = options.endpoints(context)
    network = client_network(command_config)

    async def serve() -> None:
        watch = QuorumWatch(
            network,
            lambda: endpoints,
            fetch_timeout_ms=fetch_timeout_ms,
            wall_clock_ms=lambda: time.time_ns() // 1_000_000,
            command_config=command_config,
        )
        with bound("--port", Endpoint(LOOPBACK, port)) as listening:
            served = Dashboard(watch, listening, endpoints)
            echo_line(f"The quorum is shown at {served.url} until Ctrl-C.")
            await served.run()

    trio.run(serve)
