"""`kraft server`: runs one node in the foreground."""

from __future__ import annotations

import gc
from functools import partial
from typing import Final

import click
import trio

from kraft_trio.cli.config_option import config_option, override_option, parse_overrides, read_config
from kraft_trio.cli.logging import configure_logging, limit_texts

_LEVELS = ("debug", "info", "warning", "error")
_GC_THRESHOLD: Final = 10_000
"""New objects, net, that start a collection.  Python's default of 700 is less than 64 requests in flight need."""
_GC_MIDDLE_THRESHOLD: Final = 4
"""After so many collections of the youngest generation, the next one collects the middle one, too."""
_GC_FULL_THRESHOLD: Final = 1
"""The same of the middle and the oldest.  A full one traverses the 100,000 objects since the last, in 15 to 50 ms."""
_OLDEST_GENERATION: Final = 2


@click.group()
def server() -> None:
    """Run a node."""


@server.command()
@config_option
@override_option
@click.option("--log-format", type=click.Choice(["console", "json"]), default="console", show_default=True)
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True)
@click.option("--trace", metavar="FILE", help="Write a trace of every event; an existing FILE is renamed.")
def start(config_path: str, overrides: tuple[str, ...], log_format: str, log_level: str, trace: str | None) -> None:
    """Start the node that FILE describes.

    The node runs in the foreground and logs to stderr.  SIGTERM, SIGINT (Ctrl-C) and SIGQUIT stop it.  A leader first
    hands over to a successor.  SIGHUP makes it read certificates, rules and users again.
    """
    configure_logging(log_format, log_level, traced=trace is not None)
    config = read_config(config_path, parse_overrides(overrides))
    limit_texts(config.max_log_text)
    from kraft_trio.application.configured_state_machine import state_machine_of
    from kraft_trio.cli.freed_memory import keep_freed_memory
    from kraft_trio.cli.open_files import fitted, raise_open_file_limit
    from kraft_trio.config.values import KEY_VALUE
    from kraft_trio.running import run_node

    config = fitted(config, raise_open_file_limit())
    if config.state_machine == KEY_VALUE:
        from kraft_trio.kv.gateway.configured import key_value_store

        run = partial(run_node, config, **key_value_store(config))
    else:
        run = partial(run_node, config, state_machine=state_machine_of(config))
    _tune_garbage_collector()
    keep_freed_memory()
    trio.run(partial(run, trace=trace))


def _tune_garbage_collector() -> None:
    """Keep the collector from traversing what lasts again and again: modules, requests in flight, a large state.

    Reference counting frees what a request leaves behind; tests/actors/test_garbage.py holds that.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, _GC_MIDDLE_THRESHOLD, _GC_FULL_THRESHOLD)
    gc.callbacks.append(_freeze_what_lasts)


def _freeze_what_lasts(phase: str, info: dict[str, int]) -> None:
    """Leave out of later collections what a full one has found to be in use.  So it never has much to traverse.

    Objects in a reference cycle that is dropped later stay in memory until the process ends.  Requests leave no cycles
    behind.  A connection that was open during a full collection leaves a few KiB when it ends.
    """
    if phase == "stop" and info["generation"] == _OLDEST_GENERATION:
        gc.freeze()
