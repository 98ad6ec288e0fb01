"""`kraft storage recover`: for a majority lost for good, or voters whose addresses have all changed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial

import click
import trio

from kraft_trio.cli.directory.directory_users import refuse_used
from kraft_trio.cli.directory.epoch_recovery import lower_epoch
from kraft_trio.cli.directory.recovery import RECORD, Recovery, only_voter, other_endpoints, recover
from kraft_trio.cli.directory.static_voters_recovery import accept_static_voters
from kraft_trio.cli.terminal.config_option import config_option, read_config
from kraft_trio.cli.terminal.json_option import echo_json, json_option
from kraft_trio.cli.terminal.layout import labelled
from kraft_trio.cli.terminal.output import echo, echo_line
from kraft_trio.cli.terminal.variables import is_from_variable
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.config.values import ADVERTISED_LISTENERS, parse_replica_id
from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.protocol.epoch_limits import MAX_EPOCH
from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.storage.disk.disk import join
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.log.static_voters import ACCEPT


@click.command("recover")
@config_option
@click.option("-t", "--cluster-id", help="The cluster's id, as confirmation.  Without it nothing changes.")
@click.option("--unsafe-only-voter", is_flag=True, help="Make this replica the only voter.")
@click.option(
    "--unsafe-endpoints",
    metavar="ID@NAME://HOST:PORT[,…]",
    help="The new endpoints of voters; list all listeners of each voter named.",
)
@click.option(
    "--unsafe-epoch",
    type=WholeNumber(1, MAX_EPOCH),
    metavar="EPOCH",
    help="Lower the replica's epoch to this one; use the same for every replica of the stopped quorum.",
)
@click.option(ACCEPT, is_flag=True, help="Accept the changed controller.quorum.voters of FILE on this replica.")
@json_option
@click.pass_context
def recover_command(
    context: click.Context,
    config_path: str,
    cluster_id: str | None,
    unsafe_only_voter: bool,
    unsafe_endpoints: str | None,
    unsafe_epoch: int | None,
    unsafe_static_voters: bool,
    as_json: bool,
) -> None:
    """Recover a stopped replica without its quorum.

    The command rewrites the voters in the log of the replica that FILE describes.

    Use it only if a majority is lost for good: records that the majority committed and this replica lacks are lost.
    Among the remaining replicas, choose the one whose LogEnd has the highest epoch, then the highest offset.  Run the
    command on no other replica.

    --unsafe-epoch keeps the voters.  It is for a quorum whose epochs have run out, and must run on each of its
    replicas.  It also rewrites quorum-state if that is lost, which is safe if this is the only voter.

    --unsafe-static-voters leaves the log as it is.  It lets a replica start whose controller.quorum.voters has been
    changed so that the new voters could forget what the old ones committed.

    Without --cluster-id, the command only shows what it would do and what may be lost.

    \b
    Example:
      kraft storage recover -c node.properties --unsafe-only-voter
    """
    chosen = [unsafe_only_voter, unsafe_endpoints is not None, unsafe_epoch is not None, unsafe_static_voters]
    if chosen.count(True) != 1:
        raise click.UsageError(
            f"give one of --unsafe-only-voter, --unsafe-endpoints, --unsafe-epoch and {ACCEPT}", context
        )
    # Variables may complete the file of KRAFT_CONFIG.  A file on the command line may be of another node than they are.
    config = read_config(config_path, may_contradict=is_from_variable(context, "config_path"))
    confirmed = _confirmation(cluster_id, config.metadata_log_dir, is_told=not as_json)
    now_ms = time.time_ns() // 1_000_000
    with contextlib.closing(RealDisk()) as disk:
        if unsafe_epoch is not None:
            work: Callable[[], Awaitable[Recovery]] = partial(
                lower_epoch, disk, config, unsafe_epoch, confirmed=confirmed, now_ms=now_ms
            )
        elif unsafe_static_voters:
            work = partial(accept_static_voters, disk, config, confirmed=confirmed, now_ms=now_ms)
        else:
            change = only_voter if unsafe_endpoints is None else other_endpoints(_parse_endpoints(unsafe_endpoints))
            work = partial(recover, disk, config, change, confirmed=confirmed, now_ms=now_ms)
        recovery: Recovery = trio.run(work)
    if as_json:
        echo_json({"directory": config.metadata_log_dir, **recovery.fields(is_done=cluster_id is not None)})
    if cluster_id is None:
        raise StorageError(
            f"nothing was changed; --cluster-id {recovery.cluster_id} confirms that you accept what may be lost"
        )
    if not as_json:
        echo_line(
            f"Recovered {config.metadata_log_dir}: {recovery.what}; noted in {join(config.metadata_log_dir, RECORD)}"
        )


def _confirmation(cluster_id: str | None, directory: str, *, is_told: bool) -> Callable[[Recovery], bool]:
    """Print the plan if `is_told`; agree if the right cluster id is given.  Raises ConfigError if it is another
    cluster's.

    The directory is locked by then.  Raises AlreadyLockedError if a process uses it nevertheless.
    """

    def confirmed(recovery: Recovery) -> bool:
        refuse_used(directory)
        for label, text in {"Directory": directory, **recovery.lines()}.items() if is_told else ():
            echo(labelled(label, text))
        if cluster_id not in (None, recovery.cluster_id):
            raise ConfigError(f"--cluster-id {cluster_id}: the directory belongs to cluster {recovery.cluster_id}")
        return cluster_id is not None

    return confirmed


def _parse_endpoints(text: str) -> dict[int, Endpoints]:
    """Raises ConfigError naming the text."""
    listeners: dict[int, list[tuple[str, Endpoint]]] = {}
    try:
        for entry in text.split(","):
            id_text, at, listener_text = entry.strip().partition("@")
            if not at:
                raise ValueError(f"{entry.strip()!r} is not ID@NAME://HOST:PORT")
            [listener] = ADVERTISED_LISTENERS.parse(listener_text) or [None]
            if listener is None:
                raise ValueError(f"{entry.strip()!r} is not ID@NAME://HOST:PORT")
            listeners.setdefault(parse_replica_id(id_text), []).append((listener.name, listener.endpoint))
    except ValueError as error:
        raise ConfigError(f"--unsafe-endpoints: {error}") from error
    return {replica_id: Endpoints(pairs) for replica_id, pairs in listeners.items()}
