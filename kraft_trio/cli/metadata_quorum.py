"""`kraft metadata-quorum`: what a running quorum says of itself."""

from __future__ import annotations

import json

import click
import trio

from kraft_trio.cli.quorum_layout import (
    no_leader_fields,
    no_leader_text,
    replication_fields,
    replication_text,
    status_fields,
    status_text,
)
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import NoLeader
from kraft_trio.config_keys import BOOTSTRAP_SERVERS
from kraft_trio.errors import ConfigError, NetworkError
from kraft_trio.protocol.types import Endpoint


@click.group("metadata-quorum")
@click.option("--bootstrap-controller", metavar="HOST:PORT[,…]", help="Any nodes of the quorum.")
@click.option("--bootstrap-server", metavar="HOST:PORT[,…]", help="The same, under Kafka's other name for it.")
@click.option(
    "--timeout-ms", type=click.IntRange(1), default=5000, show_default=True, help="How long to look for a leader."
)
@click.pass_context
def metadata_quorum(
    context: click.Context, bootstrap_controller: str | None, bootstrap_server: str | None, timeout_ms: int
) -> None:
    """Describe a running quorum; the leader is found from any of its nodes."""
    if (bootstrap_controller is None) == (bootstrap_server is None):
        raise click.UsageError("give one of --bootstrap-controller and --bootstrap-server", context)
    flag = "--bootstrap-server" if bootstrap_controller is None else "--bootstrap-controller"
    endpoints = _parse_bootstrap(flag, bootstrap_controller or bootstrap_server or "")
    context.obj = AdminClient(endpoints), timeout_ms


def _parse_bootstrap(flag: str, text: str) -> tuple[Endpoint, ...]:
    try:
        endpoints: tuple[Endpoint, ...] = BOOTSTRAP_SERVERS.parse(text)
    except ValueError as error:
        raise ConfigError(f"{flag} {text}: {error}") from error
    if not endpoints:
        raise ConfigError(f"{flag}: expected {BOOTSTRAP_SERVERS.allowed}")
    return endpoints


@metadata_quorum.command()
@click.option("--status", is_flag=True, help="Leader, epoch, high watermark, voters and observers.")
@click.option("--replication", is_flag=True, help="One line a replica: log end offset, lag, timestamps.")
@click.option("--human-readable", "-hr", is_flag=True, help="Timestamps as UTC times, with --replication.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON value.")
@click.pass_context
def describe(context: click.Context, status: bool, replication: bool, human_readable: bool, as_json: bool) -> None:
    """Describe the quorum.  Where it has no leader, print what each node says instead, and exit with 1."""
    if status == replication:
        raise click.UsageError("give one of --status and --replication", context)
    client, timeout_ms = context.obj
    answer = trio.run(client.describe_quorum, timeout_ms)
    if isinstance(answer, NoLeader):
        click.echo(json.dumps(no_leader_fields(answer)) if as_json else no_leader_text(answer))
        raise NetworkError(f"no leader: {answer.reachable} of the {len(answer.views)} nodes asked could be reached")
    if as_json:
        click.echo(json.dumps(status_fields(answer) if status else replication_fields(answer)))
    elif status:
        click.echo(status_text(answer))
    else:
        click.echo(replication_text(answer, human_readable=human_readable))
