"""`kraft metadata-quorum`: describes a running quorum and changes its voters."""

from __future__ import annotations

import time

import click
import trio

from kraft_trio.cli.quorum.controller_commands import add_controller, remove_controller
from kraft_trio.cli.quorum.explain_command import explain
from kraft_trio.cli.quorum.quorum_layout import (
    no_leader_fields,
    no_leader_text,
    replication_fields,
    replication_text,
    status_fields,
    status_text,
)
from kraft_trio.cli.quorum.quorum_options import QuorumOptions, no_leader_error, quorum_options
from kraft_trio.cli.quorum.reassign_command import reassign
from kraft_trio.cli.quorum.replace_controller import replace
from kraft_trio.cli.quorum.snapshot_layout import snapshot_fields, snapshot_text, snapshots_of_all
from kraft_trio.cli.quorum.transfer_command import transfer_leadership
from kraft_trio.cli.terminal.json_option import echo_json, json_option
from kraft_trio.cli.terminal.output import echo
from kraft_trio.client.quorum_description import NoLeader
from kraft_trio.errors import KraftError, NetworkError


@click.group("metadata-quorum")
@quorum_options
def metadata_quorum() -> None:
    """Describe a running quorum, or change its voters.  Any of its nodes can locate the leader."""


@metadata_quorum.command()
@click.option("--status", is_flag=True, help="Show leader, epoch, high watermark, voters and observers.")
@click.option("--replication", is_flag=True, help="Show log end offset, lag and timestamps of each replica.")
@click.option("--snapshots", is_flag=True, help="Show each node's log start, log size and snapshots.")
@click.option(
    "--human-readable",
    "-hr",
    is_flag=True,
    help="Show how long ago a timestamp was; with --snapshots, as a UTC time (not with --status).",
)
@json_option
@click.pass_context
def describe(
    context: click.Context, status: bool, replication: bool, snapshots: bool, human_readable: bool, as_json: bool
) -> None:
    """Describe the quorum.  Without a leader, print each node's view and exit with 1.

    \b
    Example:
      kraft metadata-quorum --bootstrap-controller a:9093 describe --status
    """
    options: QuorumOptions = context.obj
    client = options.client(context)
    if status + replication + snapshots != 1:
        raise click.UsageError("give one of --status, --replication and --snapshots", context)
    if snapshots:
        told = trio.run(snapshots_of_all, client, options.endpoints(context), options.timeout_ms)
        if as_json:
            echo_json(snapshot_fields(told))
        else:
            echo(snapshot_text(told, human_readable=human_readable))
        silent = sum(isinstance(answer, KraftError) for answer in told.values())
        if silent:
            raise NetworkError(f"{silent} of the {len(told)} nodes asked did not answer")
        return
    answer = trio.run(client.describe_metadata_quorum, options.timeout_ms)
    if isinstance(answer, NoLeader):
        if as_json:
            echo_json(no_leader_fields(answer))
        else:
            echo(no_leader_text(answer))
        raise no_leader_error(answer)
    if as_json:
        echo_json(status_fields(answer) if status else replication_fields(answer))
    elif status:
        echo(status_text(answer))
    else:
        echo(replication_text(answer, now_ms=round(time.time() * 1000) if human_readable else None))


metadata_quorum.add_command(explain)
metadata_quorum.add_command(add_controller)
metadata_quorum.add_command(remove_controller)
metadata_quorum.add_command(replace)
metadata_quorum.add_command(reassign)
metadata_quorum.add_command(transfer_leadership)
