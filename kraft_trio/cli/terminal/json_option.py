"""The option `--json` of commands that print a table or a report, and the printing of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from kraft_trio.cli.terminal.output import echo
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey, directory_id_to_text

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F, help: str = "Print one JSON value.", **attributes: Any) -> F:
    """Add `--json`, passed on as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=help, **attributes)(function)


def echo_json(value: object) -> None:
    """Print the value on one line."""
    echo(json.dumps(value))


def id_fields(id: OffsetAndEpoch) -> dict[str, int]:
    """An end of a log or the id of a snapshot."""
    return {"offset": id.offset, "epoch": id.epoch}


def key_fields(key: ReplicaKey) -> dict[str, int | str]:
    """A replica."""
    return {"id": key.id, "directoryId": directory_id_to_text(key.directory_id)}
