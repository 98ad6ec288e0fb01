"""The command behind `scripts/attack`."""

from __future__ import annotations

import importlib
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import click

from scripts.attacks import ATTACKS
from scripts.attacks.judge import Verdict, judge, no_quorum
from scripts.attacks.one_quorum import OneQuorum, quorum_kind
from scripts.attacks.table import table


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"scripts.attacks.{name.replace('-', '_')}")


def _first_line(name: str) -> str:
    return (_module(name).__doc__ or "").splitlines()[0]


@click.command(context_settings={"max_content_width": 140})
@click.argument("names", nargs=-1, type=click.Choice(ATTACKS), metavar="[NAME...]")
@click.option("--short", is_flag=True, help="Send less, with a longer fetch timeout; this is what the tests run.")
@click.option("--list", "is_listing", is_flag=True, help="List the attacks without running them.")
@click.option("--keep", type=click.Path(path_type=Path), help="A directory for the nodes' files, kept afterwards.")
def main(names: tuple[str, ...], short: bool, is_listing: bool, keep: Path | None) -> None:
    """Attack a quorum of real processes on this machine, by default with every attack.

    The exit code is 1 if the quorum exceeds a bound.
    """
    if is_listing:
        for name in ATTACKS:
            click.echo(f"{name:<15}{_first_line(name)}")
        return
    # A shell may start it in the background with SIGINT ignored, and a service manager stops it with SIGTERM.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    with ExitStack() as stack:
        home = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kraft-attack-")))
        home.mkdir(parents=True, exist_ok=True)
        try:
            verdicts = _play_all([name for name in ATTACKS if not names or name in names], home, short)
        except KeyboardInterrupt:
            sys.exit(130)
    click.echo("\n" + table(verdicts))
    sys.exit(any(verdict.broken for verdict in verdicts))


def _play_all(names: list[str], home: Path, is_short: bool) -> list[Verdict]:
    kinds = list(dict.fromkeys(quorum_kind(_module(name)) for name in ATTACKS))
    verdicts = []
    with OneQuorum(home, is_patient=is_short) as quorums:
        # Those that share a quorum one after the other, so that there is only one at a time.
        for name in sorted(names, key=lambda name: kinds.index(quorum_kind(_module(name)))):
            module = _module(name)
            click.echo(f"{name}: {_first_line(name)}")
            try:
                verdict = judge(name, module, quorums.of(module), is_short=is_short)
            except (AssertionError, OSError) as error:
                verdict = no_quorum(name, error)
            if verdict.broken:
                quorums.stop()
            verdicts.append(verdict)
            click.echo(f"  {'; '.join(verdict.broken) or 'withstood'} ({verdict.seconds:.0f} s)")
    return sorted(verdicts, key=lambda verdict: ATTACKS.index(verdict.attack))


if __name__ == "__main__":
    main()
