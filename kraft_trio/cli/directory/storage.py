"""`kraft storage`: formats, inspects and recovers a node's directory."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from typing import TYPE_CHECKING

import click
import trio

from kraft_trio.cli.directory.directory_info import describe_directory
from kraft_trio.cli.directory.feature_tables import feature_dependencies, version_mapping
from kraft_trio.cli.directory.format_plan import (
    Bootstrap,
    FormatPlan,
    kraft_version_named,
    parse_initial_controllers,
    plan_format,
)
from kraft_trio.cli.directory.recover_command import recover_command
from kraft_trio.cli.terminal.config_option import config_option, read_config
from kraft_trio.cli.terminal.json_option import echo_json, json_option
from kraft_trio.cli.terminal.output import echo, echo_line
from kraft_trio.cli.terminal.variables import FromVariable
from kraft_trio.client.known_voter import OVERRIDE, refuse_known_voter
from kraft_trio.config import NodeConfig
from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.protocol.types import directory_id_to_text
from kraft_trio.security.client_network import peer_network
from kraft_trio.storage.directory.directory import (
    format_directory,
    partition_path,
    random_directory_id,
    read_meta_properties,
)
from kraft_trio.storage.directory.meta_properties import META_PROPERTIES
from kraft_trio.storage.disk.disk import Disk, join
from kraft_trio.storage.disk.partition_files import BOOTSTRAP_CHECKPOINT
from kraft_trio.storage.disk.real_disk import RealDisk

if TYPE_CHECKING:
    from kraft_trio.security.scram_credential import ScramCredential


@click.group()
def storage() -> None:
    """Format, inspect and recover nodes' directories."""


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print a random UUID, for a cluster or a directory."""
    echo(directory_id_to_text(random_directory_id(random.SystemRandom())))


@storage.command("format")
@config_option
@click.option(
    "-t",
    "--cluster-id",
    cls=FromVariable,
    envvar="KRAFT_CLUSTER_ID",
    required=True,
    help="The cluster's id, the same for all its nodes.",
)
@click.option("-s", "--standalone", is_flag=True, help="Make this node the only initial voter.")
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY-ID,…",
    help="The initial voters, including this node; give each of them the same list.",
)
@click.option("-N", "--no-initial-controllers", is_flag=True, help="Join an existing quorum.")
@click.option(
    "-f",
    "--feature",
    "features",
    multiple=True,
    metavar="kraft.version=N",
    help="kraft.version 0: static voters; 1: dynamic voters.",
)
@click.option(
    "-r", "--release-version", metavar="RELEASE", help="A release of Apache Kafka.  Before 3.9: kraft.version 0."
)
@click.option(
    "-S",
    "--add-scram",
    multiple=True,
    metavar="MECHANISM=[name=…,password=…]",
    help="A user of SCRAM for the file kraft.scram.credentials.file.  May be repeated.",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Succeed without changes if the directory is formatted.")
@click.option(OVERRIDE, is_flag=True, help="Format a voter even if a running quorum knows it.")
def format_(
    config_path: str,
    cluster_id: str,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    features: tuple[str, ...],
    release_version: str | None,
    add_scram: tuple[str, ...],
    ignore_formatted: bool,
    unsafe_format_again: bool,
) -> None:
    """Format the directory of a node.

    A node with static voters (controller.quorum.voters) takes none of -s, -I and -N; any other controller needs one.
    With -I, the command first asks the other voters, and refuses if a running quorum already knows this one.

    \b
    Example:
      kraft storage format -c node.properties -t $(kraft storage random-uuid) -s
    """
    config = read_config(config_path)
    plan = plan_format(
        config,
        cluster_id=cluster_id,
        bootstrap=_bootstrap(standalone, initial_controllers, no_initial_controllers),
        initial_controllers=() if initial_controllers is None else parse_initial_controllers(initial_controllers),
        kraft_version=kraft_version_named(features, release_version),
        new_directory_id=lambda: random_directory_id(random.SystemRandom()),
    )
    users = _scram_users(add_scram)
    for warning in plan.warnings:
        echo(f"kraft: warning: {warning}", err=True)
    with contextlib.closing(RealDisk()) as disk:
        if _is_formatted(disk, config, plan, ignore_formatted):
            echo(f"Already formatted: {config.metadata_log_dir}")
            return
        _check_place(disk, config, plan)
        if initial_controllers is not None and not unsafe_format_again:
            trio.run(refuse_known_voter, plan.other_endpoints(), plan.cluster_id, plan.key, peer_network(config))
        if users:
            # Before the directory counts as formatted: an attempt that is repeated with -g adds none.
            _make_directory(disk, config.metadata_log_dir)
            _add_scram_users(config.scram_credentials_path, users)
        _write(disk, config, plan)
    # A node that joins takes the version of the quorum.
    joins = plan.voters is None and not config.quorum_voters
    how = "to join a quorum" if joins else f"with kraft.version {plan.kraft_version}"
    echo(
        f"Formatted {config.metadata_log_dir} {how}: cluster id {plan.cluster_id}, "
        f"node id {plan.key.id}, directory id {directory_id_to_text(plan.key.directory_id)}"
    )


@storage.command("add-scram")
@config_option
@click.option("--http", "for_http", is_flag=True, help="Add them to kraft.http.users.file instead.")
@click.argument("users", nargs=-1, required=True, metavar="MECHANISM=[name=…,password=…]…")
def add_scram_(config_path: str, for_http: bool, users: tuple[str, ...]) -> None:
    """Add users of SCRAM, or change their passwords.

    A node's file has the users; a running node takes changes over at once.  With - for the users, each line of stdin is
    one: other accounts of the machine can see a command's arguments.

    \b
    Example:
      echo 'SCRAM-SHA-512=[name=web,password=PASSWORD]' |
        kraft storage add-scram -c node.properties -
    """
    config = read_config(config_path)
    if for_http and not config.http_users_file:
        raise ConfigError("kraft.http.users.file is not set: --http needs it")
    path = config.http_users_file if for_http else config.scram_credentials_path
    if users == ("-",):
        users = tuple(line for line in sys.stdin.read().splitlines() if line.strip())
        if not users:
            raise ConfigError(
                "stdin: no users in it; expected lines such as SCRAM-SHA-512=[name=NAME,password=PASSWORD]"
            )
    _add_scram_users(path, _scram_users(users))
    echo(f"Written: {path}")


def _scram_users(texts: tuple[str, ...]) -> tuple[ScramCredential, ...]:
    if not texts:
        return ()
    from kraft_trio.cli.directory.scram_option import parse_scram

    return parse_scram(texts)


def _add_scram_users(path: str, users: tuple[ScramCredential, ...]) -> None:
    if users:
        from kraft_trio.security.scram_file import add_to_scram_file

        add_to_scram_file(path, users)


def _bootstrap(standalone: bool, initial_controllers: str | None, no_initial_controllers: bool) -> Bootstrap | None:
    given = [
        bootstrap
        for bootstrap, is_given in (
            (Bootstrap.STANDALONE, standalone),
            (Bootstrap.INITIAL_CONTROLLERS, initial_controllers is not None),
            (Bootstrap.NO_INITIAL_CONTROLLERS, no_initial_controllers),
        )
        if is_given
    ]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(flag.value for flag in given)} exclude each other")
    return given[0] if given else None


def _is_formatted(disk: Disk, config: NodeConfig, plan: FormatPlan, ignore_formatted: bool) -> bool:
    """Whether the directory is formatted already and may stay.  Raises StorageError if it belongs to another cluster or
    node, or `--ignore-formatted` is missing.
    """
    found = read_meta_properties(disk, config.metadata_log_dir, config.node_id)
    if found is None:
        return False
    path = join(config.metadata_log_dir, META_PROPERTIES)
    if found.node_id != config.node_id:
        raise StorageError(f"{path}: node.id={found.node_id}, but node.id={config.node_id} is configured")
    if found.cluster_id != plan.cluster_id:
        raise StorageError(f"{path}: cluster.id={found.cluster_id}, but --cluster-id is {plan.cluster_id}")
    if not ignore_formatted:
        raise StorageError(f"{config.metadata_log_dir}: already formatted (--ignore-formatted leaves it as it is)")
    return True


def _check_place(disk: Disk, config: NodeConfig, plan: FormatPlan) -> None:
    """Raises StorageError if the directory cannot be created, or holds a log that a new identity would inherit."""
    directory = config.metadata_log_dir
    above = os.path.dirname(os.path.abspath(directory))
    if not os.path.isdir(above):
        raise StorageError(f"{directory}: cannot be formatted: there is no directory {above}")
    partition = partition_path(directory, config.topic_name)
    if not disk.exists(partition):
        return
    # Leftovers of an interrupted format are written again; anything else is someone's data.
    leftovers = set(disk.list_directory(partition)) - ({BOOTSTRAP_CHECKPOINT} if plan.voters is not None else set())
    if leftovers:
        raise StorageError(
            f"{partition}: holds {min(leftovers)}, but {directory} has no {META_PROPERTIES}: nothing is "
            "overwritten; move it away to format"
        )


def _make_directory(disk: Disk, path: str) -> None:
    try:
        disk.make_directory(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be formatted: {error.strerror or error}") from error


def _write(disk: Disk, config: NodeConfig, plan: FormatPlan) -> None:
    format_directory(
        disk,
        config.metadata_log_dir,
        cluster_id=plan.cluster_id,
        node_id=plan.key.id,
        directory_id=plan.key.directory_id,
        topic_name=config.topic_name,
        voters=plan.voters,
        kraft_version=plan.kraft_version,
        timestamp_ms=time.time_ns() // 1_000_000,
    )


@storage.command()
@config_option
@json_option
def info(config_path: str, as_json: bool) -> None:
    """Show what is in a node's directory.

    The exit code is 1 if anything is wrong with it.
    """
    config = read_config(config_path)
    with contextlib.closing(RealDisk()) as disk:
        description = describe_directory(disk, config)
    if as_json:
        echo_json(description.fields())
    else:
        for line in description.lines():
            echo_line(line)
    if description.problems:
        raise StorageError(description.problems[0])


storage.add_command(recover_command)
storage.add_command(version_mapping)
storage.add_command(feature_dependencies)
