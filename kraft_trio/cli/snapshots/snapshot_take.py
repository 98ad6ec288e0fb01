"""`kraft snapshot take`: has running nodes take a snapshot now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import trio

from kraft_trio.cli.directory.stopped_node import own_endpoint
from kraft_trio.cli.quorum.quorum_options import ANSWER_MS, described, node_options
from kraft_trio.cli.terminal.config_option import read_config
from kraft_trio.cli.terminal.each_node import Told, ask_each, endpoints_of_voters
from kraft_trio.cli.terminal.json_option import echo_json, id_fields, json_option
from kraft_trio.cli.terminal.output import counted, echo
from kraft_trio.cli.terminal.timeout_option import timeout_option
from kraft_trio.cli.terminal.variables import is_from_variable
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.replica_snapshots import ReplicaSnapshots
from kraft_trio.config.values import BOOTSTRAP_SERVERS
from kraft_trio.errors import ConfigError, KraftError, NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.client_network import client_network
from kraft_trio.wire.network import Network

_FIND_LEADER_MS = 5000


@click.command()
@node_options
@click.option(
    "--all", "all_voters", is_flag=True, help="Ask every voter that the leader knows, starting from any node."
)
@timeout_option(default_ms=600_000, help="Time limit for each node.")
@json_option
@click.pass_context
def take(
    context: click.Context,
    bootstrap_controller: str | None,
    config_path: str | None,
    command_config: str | None,
    all_voters: bool,
    timeout_ms: int,
    as_json: bool,
) -> None:
    """Have running nodes take a snapshot now.

    Each node takes its own snapshot and trims its log behind it.  A node whose newest snapshot is up to date writes
    nothing.  The exit code is 1 if any node failed; the others have taken theirs.
    """
    nodes = nodes_of(context, bootstrap_controller, config_path)
    outcomes = trio.run(_take_all, nodes, client_network(command_config or config_path), all_voters, timeout_ms)
    if as_json:
        echo_json([_fields(node, outcome) for node, outcome in outcomes.items()])
    failures = []
    for node, outcome in outcomes.items():
        if isinstance(outcome, ReplicaSnapshots):
            if not as_json:
                echo(_line(outcome))
        else:
            text = str(outcome)
            failures.append(text if text.startswith(str(node)) else f"{node}: {text}")
    if failures:
        raise KraftError("; ".join(failures))


def nodes_of(
    context: click.Context, text: str | None, config_path: str | None, *, and_its_quorum: bool = False
) -> tuple[Endpoint, ...]:
    """The given nodes, or the one that a file describes; with `and_its_quorum`, also the nodes that this one names.

    Raises UsageError, ConfigError.
    """
    if config_path is not None and is_from_variable(context, "bootstrap_controller"):
        text = None
    if (text is None) == (config_path is None):
        raise click.UsageError("give one of --bootstrap-controller and -c", context)
    if config_path is not None:
        config = read_config(config_path)
        own = own_endpoint(config)
        if own is None:
            raise ConfigError(
                f"listeners={','.join(map(str, config.listeners))}: this node cannot be asked as it asks the others; "
                "name nodes with --bootstrap-controller"
            )
        others = (*config.quorum_bootstrap_servers, *(voter.endpoint for voter in config.quorum_voters))
        return tuple(dict.fromkeys((own, *others))) if and_its_quorum else (own,)
    try:
        nodes: tuple[Endpoint, ...] = BOOTSTRAP_SERVERS.parse(text or "")
    except ValueError as error:
        raise ConfigError(f"--bootstrap-controller {text}: {error}") from error
    if not nodes:
        raise ConfigError(f"--bootstrap-controller: expected {BOOTSTRAP_SERVERS.allowed}")
    return tuple(dict.fromkeys(nodes))


async def _take_all(nodes: Sequence[Endpoint], network: Network, all_voters: bool, timeout_ms: int) -> Told:
    client = AdminClient(nodes, request_timeout_ms=ANSWER_MS, network=network)
    cluster_id = None
    if all_voters:
        quorum = await described(client, _FIND_LEADER_MS)
        cluster_id = quorum.cluster_id
        nodes = endpoints_of_voters(quorum)
        if len(nodes) < len(quorum.voters):
            raise NetworkError(
                "--all: with kraft.version 0, the leader does not know its voters' listeners: name each of them "
                "with --bootstrap-controller"
            )
    return await ask_each(nodes, lambda node: client.take_snapshot(node, cluster_id=cluster_id, timeout_ms=timeout_ms))


def _fields(node: Endpoint, told: ReplicaSnapshots | KraftError) -> dict[str, Any]:
    if isinstance(told, KraftError):
        return {"endpoint": str(node), "problem": str(told).removeprefix(f"{node}: ")}
    newest = told.snapshots[-1]
    return {
        "endpoint": str(told.endpoint),
        "nodeId": told.key.id,
        "snapshotId": id_fields(newest.snapshot_id),
        "bytes": newest.size_in_bytes,
        "tookMs": None if told.took_ms < 0 else told.took_ms,
        "logStartOffset": told.log_start_offset,
    }


def _line(told: ReplicaSnapshots) -> str:
    newest = told.snapshots[-1]
    how = f"taken in {told.took_ms / 1000:.3f} s" if told.took_ms >= 0 else "already up to date, nothing written"
    return (
        f"Node {told.key.id} at {told.endpoint}: snapshot {newest.snapshot_id}, "
        f"{counted(newest.size_in_bytes, 'byte')}, {how}; its log begins at offset {told.log_start_offset}"
    )
