"""`kraft metadata-quorum add-controller` and `remove-controller` (KIP-853 "kafka-metadata-quorum")."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs
import click
import trio

from kraft_trio.cli.quorum.quorum_options import FETCH_TIMEOUT_MS, QuorumOptions
from kraft_trio.cli.quorum.voter_change_run import ChangeRefused, ChangeRun, tell
from kraft_trio.cli.quorum.voter_plan import VoterPlan, plan_add, plan_remove
from kraft_trio.cli.terminal.config_option import read_config
from kraft_trio.cli.terminal.output import echo, echo_line, field
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.cli.terminal.timeout_option import timeout_option
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState, health_of
from kraft_trio.config import NodeConfig
from kraft_trio.config.key import MAX_INT32
from kraft_trio.errors import ConfigError, KraftError, StorageError
from kraft_trio.protocol.types import (
    NO_DIRECTORY_ID,
    Endpoints,
    ReplicaKey,
    directory_id_from_text,
    directory_id_to_text,
)
from kraft_trio.storage.directory.directory import read_meta_properties, refuse_lost_directory_id
from kraft_trio.storage.disk.real_disk import RealDisk

NO_LISTENERS: Final = Endpoints()

F = TypeVar("F", bound=Callable[..., Any])


def change_options(function: F) -> F:
    """Add the options that all voter changes share: `timeout_ms`, `dry_run`, `force`."""
    for option in (
        click.option("--force", is_flag=True, help="Send the request even if it would stop the quorum."),
        click.option("--dry-run", is_flag=True, help="Show what would change; exit with 1 if it would be refused."),
        timeout_option("--timeout-ms", help="Time limit, including the time a new controller takes to catch up."),
    ):
        function = option(function)
    return function


@attrs.frozen
class OwnNode:
    """The node that a configuration file describes, with the identity stored in its directory."""

    config: NodeConfig
    key: ReplicaKey
    listeners: Endpoints
    cluster_id: str


def read_own_node(config_path: str) -> OwnNode:
    """Read the file and the node's directory.  Raises ConfigError, StorageError."""
    config = read_config(config_path)
    directory = config.metadata_log_dir
    with contextlib.closing(RealDisk()) as disk:
        properties = read_meta_properties(disk, directory, config.node_id)
        if properties is not None:
            refuse_lost_directory_id(disk, directory, properties)
    if properties is None:
        raise StorageError(f"{directory}: not formatted; format it first (kraft storage format)")
    if properties.node_id != config.node_id:
        raise StorageError(f"{directory}: formatted for node {properties.node_id}, not for node.id={config.node_id}")
    if properties.directory_id == NO_DIRECTORY_ID:
        raise StorageError(f"{directory}: no directory id yet; the node gets one at its next start")
    if "controller" not in config.process_roles:
        raise ConfigError(f"process.roles={','.join(config.process_roles)}: expected controller for a voter")
    key = ReplicaKey(config.node_id, properties.directory_id)
    return OwnNode(config, key, config.advertised_endpoints(), properties.cluster_id)


@click.command("add-controller")
@click.option(
    "-c", "--config", "config_path", metavar="FILE", type=NamedPath(), help="The new controller's .properties file."
)
@click.option(
    "-i", "--controller-id", type=WholeNumber(0, MAX_INT32), metavar="ID", help="The id of a controller that observes."
)
@click.option(
    "-d", "--controller-directory-id", metavar="DIRECTORY_ID", help="Its directory id, if two of its id observe."
)
@change_options
@click.pass_context
def add_controller(
    context: click.Context,
    config_path: str | None,
    controller_id: int | None,
    controller_directory_id: str | None,
    timeout_ms: int,
    dry_run: bool,
    force: bool,
) -> None:
    """Make a node a voter.  If it is one already, the command changes nothing and succeeds.

    With FILE, run this on the node's machine: the id, directory id and listeners come from its file and directory.
    Without --bootstrap-controller, FILE's controller.quorum.bootstrap.servers locate the quorum.

    With ID, run this anywhere: directory id and listeners are those that the node has told the leader (KIP-1141).

    \b
    Examples:
      kraft metadata-quorum add-controller -c node.properties
      kraft metadata-quorum --bootstrap-controller a:9093 add-controller -i 4
    """
    options: QuorumOptions = context.obj
    if controller_id is not None:
        if config_path is not None:
            raise click.UsageError("give one of -c and -i", context)
        directory_id = None if controller_directory_id is None else parse_directory_id(controller_directory_id)
        run = ChangeRun(options.client(context, changes=True), options.timeout_ms, timeout_ms, FETCH_TIMEOUT_MS, force)
        quorum = trio.run(run.describe)
        new = _observer(quorum, controller_id, directory_id)
        key, listeners, cluster_id = new.key, quorum.endpoints_of(new.key) or NO_LISTENERS, quorum.cluster_id
    else:
        path = config_path or options.command_config
        if path is None:
            raise click.UsageError("give the new controller's file with -c, or its id with -i", context)
        own = read_own_node(path)
        client = options.client(context, own.config, changes=True)
        run = ChangeRun(client, options.timeout_ms, timeout_ms, own.config.fetch_timeout_ms, force)
        key, listeners, cluster_id = own.key, own.listeners, own.cluster_id
    if dry_run:
        dry_run_of(
            run,
            f"adding {told(key, listeners)}",
            lambda quorum: plan_add(quorum, key, run.fetch_timeout_ms, listeners, cluster_id),
        )
        return
    already = trio.run(run.add, key, listeners, cluster_id)
    tell_outcome(already, f"Added {told(key, listeners)}")


def _observer(quorum: QuorumDescription, controller_id: int, directory_id: UUID | None) -> ReplicaState:
    """The replica of that id that may become a voter, or the voter that it is.  Raises ChangeRefused."""
    voter = quorum.voter_of_id(controller_id)
    if voter is not None and directory_id in (None, voter.key.directory_id):
        return voter
    meant = [state for state in quorum.observers_of_id(controller_id) if directory_id in (None, state.key.directory_id)]
    following = [state for state in meant if health_of(quorum, state, FETCH_TIMEOUT_MS).is_up]
    if len(following) != 1:
        observers = ", ".join(str(state.key) for state in quorum.observers) or "none"
        names = " and ".join(str(state.key) for state in following)
        reason = f"{names} follow the leader: name one with -d" if names else "no such controller follows the leader"
        raise ChangeRefused(f"controller {controller_id}: {reason}; the observers are {observers}")
    [new] = following
    if not new.listeners:
        raise ChangeRefused(
            f"controller {new.key} has told the leader no listener: a broker never does, nor do Apache Kafka's "
            "controllers.  Run this on its machine, with -c FILE"
        )
    return new


@click.command("remove-controller")
@click.option(
    "-i", "--controller-id", type=WholeNumber(0, MAX_INT32), required=True, metavar="ID", help="The id of a voter."
)
@click.option(
    "-d", "--controller-directory-id", metavar="DIRECTORY_ID", help="The voter's directory id; any if omitted."
)
@click.option("--if-exists", is_flag=True, help="Succeed if there is no such voter.")
@click.option(
    "--unregister",
    is_flag=True,
    help="Then have Kafka's active controller forget the controller, for good (Kafka 4.4).",
)
@change_options
@click.pass_context
def remove_controller(
    context: click.Context,
    controller_id: int,
    controller_directory_id: str | None,
    if_exists: bool,
    unregister: bool,
    timeout_ms: int,
    dry_run: bool,
    force: bool,
) -> None:
    """Remove a voter.  Without such a voter, the command changes nothing and fails.

    Give its id, or its id and directory id.  By the id alone, the incarnation that is the voter goes, and the command
    names it first.
    """
    options: QuorumOptions = context.obj
    directory_id = None if controller_directory_id is None else parse_directory_id(controller_directory_id)
    client = options.client(context, changes=True)
    run = ChangeRun(client, options.timeout_ms, timeout_ms, FETCH_TIMEOUT_MS, force)
    quorum = trio.run(run.describe)
    key = _voter_key(quorum, controller_id, directory_id)
    if key is None:
        quorum = trio.run(run.settled)
        key = _voter_key(quorum, controller_id, directory_id)
    if key is None:
        names = ", ".join(str(state.key) for state in quorum.voters)
        reason = f"no voter has id {controller_id}: the voters are {names}"
        if directory_id is not None:
            reason = f"{ReplicaKey(controller_id, directory_id)} is not among the voters {names}"
        if not if_exists:
            raise ChangeRefused(f"VOTER_NOT_FOUND: {reason} (--if-exists makes that no error)")
        tell_outcome(reason, "")
    elif dry_run:
        dry_run_of(run, f"removing KRaft {told(key)}", lambda q: plan_remove(q, key, run.fetch_timeout_ms))
    else:
        if directory_id is None:
            _tell_which(quorum, key)
        already = trio.run(run.remove, key, quorum.cluster_id)
        tell_outcome(already, f"Removed KRaft {told(key)}")
    if unregister:
        _unregister(client, controller_id, timeout_ms, dry_run)


def _tell_which(quorum: QuorumDescription, key: ReplicaKey) -> None:
    """Name the incarnation that goes, before it goes: after a disk was replaced, there are two of its id."""
    others = [state.key for state in quorum.observers if state.key.id == key.id and state.key != key]
    observing = f"; {' and '.join(map(str, others))} observes and stays" if others else ""
    tell(f"removing {told(key)}, which is the voter{observing}")


def _unregister(client: AdminClient, controller_id: int, timeout_ms: int, dry_run: bool) -> None:
    """In the words of Kafka's tool.  Raises KraftError."""
    if not dry_run:
        try:
            trio.run(partial(client.unregister_controller, controller_id, timeout_ms=timeout_ms))
        except KraftError as error:
            raise KraftError(f"Failed to unregister controller {controller_id}: {error}") from error
    echo(f"{'DRY RUN of unregistering' if dry_run else 'Unregistered'} KRaft controller {controller_id}")


def tell_outcome(already: str | None, done: str) -> None:
    """Say what was done, or why there was nothing to do: repeating a command is no error."""
    echo(done if already is None else f"Nothing to do: {already}")


def parse_directory_id(text: str) -> UUID:
    """Raises ConfigError."""
    try:
        directory_id = directory_id_from_text(text)
    except ValueError as error:
        raise ConfigError(f"--controller-directory-id {error}") from error
    if directory_id == NO_DIRECTORY_ID:
        raise ConfigError(f"--controller-directory-id {text}: reserved; it means an unknown directory id")
    return directory_id


def _voter_key(quorum: QuorumDescription, replica_id: int, directory_id: UUID | None) -> ReplicaKey | None:
    """The voter to remove, or None if there is no such voter."""
    known = quorum.voter_of_id(replica_id)
    if known is None or directory_id is None or known.key.directory_id == directory_id:
        return None if known is None else known.key
    # Of static voters, the directory ids may be unknown.
    return ReplicaKey(replica_id, directory_id) if known.key.directory_id == NO_DIRECTORY_ID else None


def dry_run_of(run: ChangeRun, what: str, make_plan: Callable[[QuorumDescription], VoterPlan]) -> None:
    """Print the plan.  Raises ChangeRefused if the leader would refuse it."""
    plan = trio.run(run.looked_at, make_plan)
    if plan.already is not None:
        tell_outcome(plan.already, "")
        return
    echo(f"DRY RUN of {what}")
    for line in plan.lines():
        echo_line(line)
    if plan.objections:
        raise ChangeRefused(f"would be refused: {'; '.join(plan.objections)}")


def told(key: ReplicaKey, listeners: Endpoints = NO_LISTENERS) -> str:
    """Describe a controller in the words of Kafka's tools."""
    text = f"controller {key.id} with directory id {directory_id_to_text(key.directory_id)}"
    if len(listeners):
        text += f" and endpoints: {', '.join(field(f'{name}://{endpoint}') for name, endpoint in listeners)}"
    return text
