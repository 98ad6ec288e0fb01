"""`kraft server`: runs one node in the foreground."""

from __future__ import annotations

import sys
from functools import partial

import click
import trio

from kraft_trio.cli.serving.logging import configure_logging, limit_texts
from kraft_trio.cli.terminal.config_option import config_option, override_option, parse_overrides, read_config
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.cli.terminal.variables import FromVariable
from kraft_trio.logs import get_logger
from kraft_trio.system.support import no_windows

if sys.platform == "win32":
    raise no_windows("nodes")

log = get_logger(__name__)

_LEVELS = ("debug", "info", "warning", "error")


@click.group()
def server() -> None:
    """Run a node."""


@server.command()
@config_option
@override_option
@click.option(
    "--log-format",
    cls=FromVariable,
    envvar="KRAFT_LOG_FORMAT",
    type=click.Choice(["console", "json"]),
    default="console",
    show_default=True,
    help="Lines for people or for programs.",
)
@click.option(
    "--log-level",
    cls=FromVariable,
    envvar="KRAFT_LOG_LEVEL",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="The least severe lines to write.",
)
@click.option(
    "--trace", metavar="FILE", type=NamedPath(), help="Write a trace of every event; an existing FILE is renamed."
)
def start(config_path: str, overrides: tuple[str, ...], log_format: str, log_level: str, trace: str | None) -> None:
    """Start the node that FILE describes.

    The node runs in the foreground and logs to stderr.  SIGTERM, SIGINT (Ctrl-C), SIGQUIT and the end of its terminal
    stop it.  A leader first hands over to a successor, in at most kraft.shutdown.grace.ms.  A second signal stops the
    node at once.  SIGHUP makes it read certificates, rules and users again; under nohup, it ignores SIGHUP.
    """
    configure_logging(log_format, log_level, traced=trace is not None)
    config = read_config(config_path, parse_overrides(overrides))
    limit_texts(config.max_log_text)
    from kraft_trio.application.configured_state_machine import state_machine_of
    from kraft_trio.cli.serving.garbage import tune_garbage_collector
    from kraft_trio.cli.serving.open_files import fitted, raise_open_file_limit
    from kraft_trio.config.values import KEY_VALUE
    from kraft_trio.running import run_node
    from kraft_trio.system.file_systems import IN_MEMORY, kind_of
    from kraft_trio.system.freed_memory import keep_freed_memory

    if kind_of(config.metadata_log_dir) in IN_MEMORY:
        log.warning("the directory is in memory: a restart of the machine loses it", directory=config.metadata_log_dir)
    config = fitted(config, raise_open_file_limit())
    if config.state_machine == KEY_VALUE:
        from kraft_trio.kv.gateway.configured import key_value_store

        run = partial(run_node, config, **key_value_store(config))
    else:
        run = partial(run_node, config, state_machine=state_machine_of(config))
    tune_garbage_collector()
    keep_freed_memory()
    trio.run(partial(run, trace=trace))
