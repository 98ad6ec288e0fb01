"""The command behind `scripts/etcd-differences`."""

from __future__ import annotations

import random
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

from harness.etcd import etcd_program, etcd_version
from scripts.etcd_differences.run import Difference, compare


@click.command(context_settings={"max_content_width": 120})
@click.option("--requests", type=click.IntRange(min=1), default=1000, show_default=True, help="How many are compared.")
@click.option("--seed", type=int, help="Decides the requests (default: a random one).")
def main(requests: int, seed: int | None) -> None:
    """Ask etcd and a gateway of ours the same at random, and print where the answers differ.

    The exit code is 1 if they differ in what is not in the table of docs/reference/key-value-store.md.  It is 2 without
    etcd.
    """
    program = etcd_program()
    if program is None:
        click.echo("no etcd: run scripts/get-etcd, or let ETCD name the program", err=True)
        sys.exit(2)
    # A shell may start it in the background with SIGINT ignored, and a service manager stops it with SIGTERM.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    click.echo(f"etcd {etcd_version(program)}, seed {seed}")
    known: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="kraft-etcd-") as directory:
        compared, unknown = compare(program, Path(directory), requests, seed, known, _show)
    for row, count in sorted(known.items()):
        click.echo(f"known: {row}: {count}")
    click.echo(f"{compared} requests compared, {len(unknown)} differences outside the table")
    sys.exit(bool(unknown))


def _show(difference: Difference) -> None:
    click.echo(str(difference))


if __name__ == "__main__":
    main()
