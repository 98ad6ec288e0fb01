"""The command behind `scripts/etcd-differences`."""

from __future__ import annotations

from collections import Counter

import click

from harness.etcd import etcd_program, etcd_version
from scripts.common.run import command, impossible, running, seed_option
from scripts.common.verdict import Verdict
from scripts.etcd_differences.run import compare


@command
@click.option("--requests", type=click.IntRange(min=1), default=1000, show_default=True, help="How many are compared.")
@seed_option("the requests")
def main(requests: int, seed: int) -> None:
    """Ask etcd and a gateway of ours the same at random, and print where the answers differ.

    The exit code is 1 if they differ in what is not in the table of docs/reference/key-value-store.md.  It is 2 without
    etcd.
    """
    program = etcd_program()
    if program is None:
        impossible("no etcd: run scripts/get-etcd, or let ETCD name the program")
    with running("etcd", "compared with etcd") as run:
        run.say(f"etcd {etcd_version(program)}, seed {seed}")
        known: Counter[str] = Counter()
        compared, unknown = compare(program, run.home, requests, seed, known, lambda found: run.say(str(found)))
        for row, count in sorted(known.items()):
            run.judged(Verdict(row, {"differences": str(count)}, held="known"))
        broken = [f"{len(unknown)} differences outside the table"] if unknown else []
        run.judged(Verdict("answers", {"requests": str(compared)}, tuple(broken), held="as known"))


if __name__ == "__main__":
    main()
