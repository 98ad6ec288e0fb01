"""The options that locate a running quorum, and the client made from them."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import attrs
import click

from kraft_trio.cli.quorum.quorum_layout import no_leader_text
from kraft_trio.cli.terminal.config_option import command_config_option
from kraft_trio.cli.terminal.output import echo
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.cli.terminal.variables import bootstrap_option, is_from_variable
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import NoLeader, QuorumDescription
from kraft_trio.config import NodeConfig
from kraft_trio.config.key import MAX_INT32
from kraft_trio.config.values import BOOTSTRAP_SERVERS
from kraft_trio.errors import ConfigError, NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.security.client_network import client_network, peer_network
from kraft_trio.wire.network import Network

F = TypeVar("F", bound=Callable[..., Any])

FETCH_TIMEOUT_MS: Final = 2000
"""The default of controller.quorum.fetch.timeout.ms, used when no configuration file is given."""

ANSWER_MS: Final = 5000
"""How long one node may take to answer: a machine that is busy may take seconds."""

_NO_LEADER = "no leader: {} of the {} nodes asked could be reached"


BOOTSTRAP_OPTIONS: Final = (
    click.option("--bootstrap-server", metavar="HOST:PORT[,…]", help="An alias of --bootstrap-controller."),
    bootstrap_option("--bootstrap-controller", help="Any nodes of the quorum."),
)
"""Add the options that name nodes, the last one first; `given_nodes` is for their values."""


def given_nodes(context: click.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a command's options without the nodes of the variable, if the alias on the command line wins."""
    wins = values["bootstrap_server"] is not None and is_from_variable(context, "bootstrap_controller")
    return {**values, "bootstrap_controller": None} if wins else dict(values)


def quorum_options(function: Callable[[], None]) -> Callable[..., None]:
    """Add the options to a group.  Its commands find their values, `QuorumOptions`, in the context."""

    @functools.wraps(function)
    @click.pass_context
    def group(context: click.Context, /, **values: Any) -> None:
        nodes = given_nodes(context, values)
        named_by_variable = nodes["bootstrap_controller"] is not None and is_from_variable(
            context, "bootstrap_controller"
        )
        context.obj = QuorumOptions(**nodes, is_from_variable=named_by_variable)
        function()

    for option in (
        click.option(
            "--timeout-ms",
            type=WholeNumber(1, MAX_INT32),
            default=5000,
            show_default=True,
            help="Time limit for finding the leader.",
        ),
        partial(command_config_option, more="  For add-controller, also the new controller's file."),
        *BOOTSTRAP_OPTIONS,
    ):
        group = option(group)
    return group


def node_options(function: F) -> F:
    """Add the options that name individual nodes: `bootstrap_controller`, `config_path` and `command_config`."""
    for option in (
        command_config_option,
        click.option(
            "-c",
            "--config",
            "config_path",
            metavar="FILE",
            type=NamedPath(),
            help="The .properties file of a running node.",
        ),
        bootstrap_option("--bootstrap-controller", help="Running nodes."),
    ):
        function = option(function)
    return function


@attrs.frozen
class QuorumOptions:
    """The values of those options."""

    bootstrap_controller: str | None
    bootstrap_server: str | None
    command_config: str | None
    timeout_ms: int
    is_from_variable: bool = False
    """Whether the nodes are those of the variable."""

    def client(self, context: click.Context, config: NodeConfig | None = None, *, changes: bool = False) -> AdminClient:
        """A client for the given nodes, or for those that a node's configuration names.

        If the command `changes` the quorum, and only the variable names that, a note on stderr says so.

        Raises UsageError, ConfigError.
        """
        endpoints = self.endpoints(context, config)
        if changes and self.is_from_variable and endpoints == self.endpoints(context):
            echo(f"kraft: note: KRAFT_BOOTSTRAP_CONTROLLER names the quorum: {','.join(map(str, endpoints))}", err=True)
        return AdminClient(endpoints, request_timeout_ms=ANSWER_MS, network=self.network(config))

    def network(self, config: NodeConfig | None = None) -> Network:
        """How to connect: as --command-config says, or else as the node does.  Raises ConfigError."""
        if config is not None and self.command_config is None:
            return peer_network(config)
        return client_network(self.command_config)

    def command(self, endpoints: Sequence[Endpoint]) -> str:
        """What another command to the same nodes begins with."""
        connecting = "" if self.command_config is None else f" --command-config {shlex.quote(self.command_config)}"
        return f"kraft metadata-quorum --bootstrap-controller {','.join(map(str, endpoints))}{connecting}"

    def endpoints(
        self, context: click.Context, config: NodeConfig | None = None, own: Endpoint | None = None
    ) -> tuple[Endpoint, ...]:
        """The nodes to ask: those that the options name, or else `own` and those in a node's configuration.

        The variable may be left from work on another quorum: the configuration wins over it.

        Raises UsageError, ConfigError.
        """
        is_named = self.bootstrap_controller is not None or self.bootstrap_server is not None
        if config is not None and (not is_named or self.is_from_variable):
            told = (own, *config.quorum_bootstrap_servers, *(voter.endpoint for voter in config.quorum_voters))
            known = tuple(dict.fromkeys(endpoint for endpoint in told if endpoint is not None))
            if known:
                return known
        if (self.bootstrap_controller is None) == (self.bootstrap_server is None):
            # These options belong to the group, whose help shows them.
            message = f"give one of --bootstrap-controller and --bootstrap-server before `{context.info_name}`"
            raise click.UsageError(message, context.parent)
        flag = "--bootstrap-server" if self.bootstrap_controller is None else "--bootstrap-controller"
        text = self.bootstrap_controller or self.bootstrap_server or ""
        try:
            endpoints: tuple[Endpoint, ...] = BOOTSTRAP_SERVERS.parse(text)
        except ValueError as error:
            raise ConfigError(f"{flag} {text}: {error}") from error
        if not endpoints:
            raise ConfigError(f"{flag}: expected {BOOTSTRAP_SERVERS.allowed}")
        return endpoints


async def described(client: AdminClient, timeout_ms: int) -> QuorumDescription:
    """The leader's description.  Without a leader, print each node's view and raise NetworkError."""
    answer = await client.describe_metadata_quorum(timeout_ms)
    if isinstance(answer, NoLeader):
        echo(no_leader_text(answer))
        raise no_leader_error(answer)
    return answer


def no_leader_error(answer: NoLeader) -> NetworkError:
    return NetworkError(_NO_LEADER.format(answer.reachable, len(answer.views)))
