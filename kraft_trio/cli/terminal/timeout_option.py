"""The `--timeout` option of commands that ask running nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.config.key import MAX_INT32

F = TypeVar("F", bound=Callable[..., Any])


def timeout_option(*aliases: str, help: str, default_ms: int = 30_000) -> Callable[[F], F]:
    """Add `--timeout` and its aliases, passed on as `timeout_ms`."""
    return click.option(
        "--timeout",
        *aliases,
        "timeout_ms",
        metavar="MS",
        type=WholeNumber(1, MAX_INT32),
        default=default_ms,
        show_default=True,
        help=help,
    )
