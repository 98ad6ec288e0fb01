"""The frame of a script that plays something: its folder, its random choices, what it says, and its exit code."""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from scripts.common.verdict import Verdict, table

FAILED: Final = 1
IMPOSSIBLE: Final = 2
"""A program of others is absent."""
INTERRUPTED: Final = 130

command: Final = click.command(context_settings={"max_content_width": 120})

keep_option: Final = click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="A directory for the files of the run, kept afterwards.",
)


def seed_option(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option `--seed`, which decides `what`; without it, a random one."""
    return click.option(
        "--seed",
        type=int,
        default=lambda: random.SystemRandom().randrange(2**32),
        help=f"Decides {what} (default: a random one).",
    )


class Run:
    """One run of a script: what it says, and how it judges what it has seen."""

    def __init__(self, home: Path, what: str) -> None:
        self.home = home
        self.verdicts: list[Verdict] = []
        self._what = what
        self._began_s = time.monotonic()

    def say(self, text: str) -> None:
        """Tell what happens, with the time since the run began."""
        click.echo(f"{time.monotonic() - self._began_s:7.1f} s  {text}")

    def judged(self, verdict: Verdict) -> None:
        """Tell a verdict, and keep it for the table."""
        self.say(f"{verdict.subject}: {verdict.text}")
        self.verdicts.append(verdict)

    def end(self) -> int:
        """Show the table; the exit code."""
        if self.verdicts:
            click.echo(f"\n{table(self._what, self.verdicts)}")
        return FAILED if any(verdict.broken for verdict in self.verdicts) else 0


@contextmanager
def running(name: str, what: str, keep: Path | None = None) -> Iterator[Run]:
    """The whole of a script: ends the process with the exit code of the run.

    `what` is what the verdicts are about, and `keep` a folder that survives; otherwise it is a temporary one.  The
    block ends its own processes, also when the script is interrupted.
    """
    with interruptible(), ExitStack() as stack:
        home = keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix=f"kraft-{name}-", ignore_cleanup_errors=True))
        )
        home.mkdir(parents=True, exist_ok=True)
        run = Run(home, what)
        try:
            yield run
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        sys.exit(run.end())


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT and SIGTERM raise KeyboardInterrupt in the block.

    A shell may start a script in the background with SIGINT ignored, and a service manager stops it with SIGTERM.
    """
    with ExitStack() as stack:
        for stop, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, _interrupt)):
            stack.callback(signal.signal, stop, signal.signal(stop, handler))
        yield


def _interrupt(*_: object) -> None:
    """Trio lets its tasks end after SIGINT only."""
    signal.raise_signal(signal.SIGINT)


def impossible(reason: str) -> NoReturn:
    """End the process because a program of others is absent."""
    click.echo(reason, err=True)
    sys.exit(IMPOSSIBLE)
