"""`kraft metadata-quorum transfer-leadership`: has a chosen voter lead."""

from __future__ import annotations

import click
import trio

from kraft_trio.cli.quorum.quorum_options import QuorumOptions, described
from kraft_trio.cli.terminal.output import echo
from kraft_trio.cli.terminal.timeout_option import timeout_option
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.config.key import MAX_INT32
from kraft_trio.errors import ApiNotServedError, UnsupportedVersionError


@click.command("transfer-leadership")
@click.option(
    "--to", "voter_id", type=WholeNumber(0, MAX_INT32), required=True, metavar="ID", help="The voter to lead."
)
@timeout_option("--timeout-ms", help="Time limit, including the time the voter takes to catch up.")
@click.pass_context
def transfer_leadership(context: click.Context, voter_id: int, timeout_ms: int) -> None:
    """Have a voter lead, without losing an append.  If it leads already, the command changes nothing and succeeds.

    The leader waits until the voter has caught up, holds appends for a moment, and resigns in its favour.  A controller
    of Apache Kafka can be chosen, but not asked to hand over.
    """
    options: QuorumOptions = context.obj
    trio.run(_transfer, options, context, voter_id, timeout_ms)


async def _transfer(options: QuorumOptions, context: click.Context, voter_id: int, timeout_ms: int) -> None:
    client = options.client(context, changes=True)
    before = await described(client, options.timeout_ms)
    if before.leader_id == voter_id:
        echo(f"Nothing to do: node {voter_id} leads epoch {before.leader_epoch}")
        return
    try:
        after = await client.transfer_leadership(voter_id, cluster_id=before.cluster_id, timeout_ms=timeout_ms)
    except ApiNotServedError as error:
        raise UnsupportedVersionError(
            f"node {before.leader_id} leads, and is a controller of Apache Kafka, which cannot be asked to hand over: "
            "stop it with SIGTERM, and another voter leads"
        ) from error
    echo(f"Node {voter_id} leads epoch {after.leader_epoch}; node {before.leader_id} has handed over")
