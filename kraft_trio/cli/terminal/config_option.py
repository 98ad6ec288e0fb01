"""The options that name a configuration file, and the printing of its warnings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import click

from kraft_trio.cli.terminal.output import echo
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.cli.terminal.variables import FromVariable
from kraft_trio.config import NodeConfig, parse_config
from kraft_trio.config.properties import environment_variable, read_environment, read_file
from kraft_trio.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def config_option(function: F) -> F:
    """Add `-c/--config FILE`, passed on as `config_path`."""
    return click.option(
        "-c",
        "--config",
        "config_path",
        cls=FromVariable,
        envvar="KRAFT_CONFIG",
        required=True,
        metavar="FILE",
        type=NamedPath(),
        help="The .properties file.",
    )(function)


def command_config_option(function: F, more: str = "") -> F:
    """Add `--command-config FILE`, passed on as `command_config`; `more` is a further sentence of its help."""
    return click.option(
        "--command-config",
        cls=FromVariable,
        envvar="KRAFT_COMMAND_CONFIG",
        metavar="FILE",
        type=NamedPath(),
        help="How to connect: FILE has security.protocol, ssl and sasl keys, as for Kafka's tools, or is a node's."
        + more,
    )(function)


override_option = click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of the file; may be repeated."
)
"""Adds `--override KEY=VALUE`, passed on as `overrides`, for `parse_overrides`."""


def read_config(path: str, overrides: Mapping[str, str] | None = None, *, may_contradict: bool = True) -> NodeConfig:
    """Load a configuration and print its warnings on stderr.  The overrides win over the environment, and that over
    the file.  Raises ConfigError naming the file, the variable or the override; unless `may_contradict`, also if a
    variable and the file give a key different values.
    """
    given = overrides or {}
    of_variables, unknown = read_environment(os.environ)
    source = partial(_with_source, path=path, overrides=given, of_variables=of_variables)
    try:
        in_file, repeated = read_file(path)  # Once: a pipe cannot be read again.
        loaded = parse_config({**in_file, **of_variables, **given})
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(f"{path}: ") else source(text)) from error
    contradicted = [key for key, text in of_variables.items() if in_file.get(key, text) != text and key not in given]
    if contradicted and not may_contradict:
        names = ", ".join(map(environment_variable, contradicted))
        raise ConfigError(f"{path}: contradicted by {names}; unset what was not meant, or use KRAFT_CONFIG for -c")
    wins = [f"{environment_variable(key)}: wins over {key} of {path}" for key in contradicted]
    of_file = [warning for warning in repeated if _key_of(warning) not in {**of_variables, **given}]
    for warning in (*unknown, *wins, *map(source, (*of_file, *loaded.warnings))):
        echo(f"kraft: warning: {warning}", err=True)
    return loaded.config


def _with_source(message: str, path: str, overrides: Collection[str], of_variables: Collection[str]) -> str:
    """The message, which begins with a key, after the place in which that key was given."""
    key = _key_of(message)
    if key in overrides:
        return f"--override {message}"
    return f"{environment_variable(key) if key in of_variables else path}: {message}"


def _key_of(message: str) -> str:
    return re.split(r"[=:]", message, maxsplit=1)[0]


def parse_overrides(texts: Sequence[str]) -> dict[str, str]:
    """Read `key=value` texts; the last value of a repeated key counts.  Raises ConfigError naming the text."""
    overrides = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--override {text}: expected key=value")
        overrides[key.strip()] = value
    return overrides
