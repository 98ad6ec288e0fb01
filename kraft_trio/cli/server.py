"""`kraft server`: one node in the foreground."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import click
import trio

from kraft_trio.cli.config_option import config_option, parse_overrides, read_config
from kraft_trio.cli.logging import configure_logging
from kraft_trio.errors import ConfigError

_BINDING_ERRORS = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
_LEVELS = ("debug", "info", "warning", "error")


@click.group()
def server() -> None:
    """Run a node."""


@server.command()
@config_option
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="A key that wins over the file's.")
@click.option("--log-format", type=click.Choice(["console", "json"]), default="console", show_default=True)
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True)
def start(config_path: str, overrides: tuple[str, ...], log_format: str, log_level: str) -> None:
    """Start the node that FILE describes; it runs in the foreground and logs to stderr.

    SIGTERM and SIGINT (Ctrl-C) stop it: a leader first hands over to a successor.
    """
    configure_logging(log_format, log_level)
    config = read_config(config_path, parse_overrides(overrides))
    from kraft_trio.node import run_node

    try:
        trio.run(run_node, config)
    except* OSError as group:
        unbound = group.subgroup(_is_binding_error)
        if unbound is None:
            raise
        listeners = ",".join(map(str, config.listeners))
        reasons = ", ".join(dict.fromkeys(os.strerror(error.errno or 0) for error in _leaves(unbound)))
        raise ConfigError(f"listeners={listeners}: cannot be bound: {reasons}") from group


def _is_binding_error(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.filename is None and error.errno in _BINDING_ERRORS


def _leaves(group: BaseExceptionGroup[OSError]) -> Iterator[OSError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
