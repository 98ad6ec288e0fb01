"""The options that name a configuration file, and the printing of its warnings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from kraft_trio.cli.terminal.output import echo
from kraft_trio.config import NodeConfig, load_config
from kraft_trio.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def config_option(function: F) -> F:
    """Add `-c/--config FILE`, passed on as `config_path`."""
    return click.option("-c", "--config", "config_path", required=True, metavar="FILE", help="The .properties file.")(
        function
    )


override_option = click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of the file; may be repeated."
)
"""Adds `--override KEY=VALUE`, passed on as `overrides`, for `parse_overrides`."""


def read_config(path: str, overrides: Mapping[str, str] | None = None) -> NodeConfig:
    """Load a configuration and print its warnings on stderr.  Raises ConfigError naming the file or the override."""
    given = overrides or {}
    try:
        loaded = load_config(path, given)
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(f"{path}: ") else _with_source(text, path, given)) from error
    for warning in loaded.warnings:
        echo(f"kraft: warning: {_with_source(warning, path, given)}", err=True)
    return loaded.config


def _with_source(message: str, path: str, overrides: Mapping[str, str]) -> str:
    """The message, which begins with a key, after the place in which that key was given."""
    key = re.split(r"[=:]", message, maxsplit=1)[0]
    return f"--override {message}" if key in overrides else f"{path}: {message}"


def parse_overrides(texts: Sequence[str]) -> dict[str, str]:
    """Read `key=value` texts; the last value of a repeated key counts.  Raises ConfigError naming the text."""
    overrides = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--override {text}: expected key=value")
        overrides[key.strip()] = value
    return overrides
