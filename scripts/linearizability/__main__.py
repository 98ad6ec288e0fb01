"""The command behind `scripts/check-linearizability`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from kraft_trio.simulation.facts.history_file import read_history
from scripts.common.run import command, keep_option, running, seed_option
from scripts.common.verdict import Verdict
from scripts.linearizability.fault_kinds import FAULTS
from scripts.linearizability.faults import NoEffect, NoProgress
from scripts.linearizability.go_program import NotBuilt, build, problems_of
from scripts.linearizability.models import violations
from scripts.linearizability.real_run import run_real_nodes


@command
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=20.0, show_default=True, help="How long faults happen."
)
@seed_option("the order of the faults")
@click.option("--gateway", is_flag=True, help="Use the gateways of servers with the key-value store.")
@click.option(
    "--fault", "faults", multiple=True, type=click.Choice(sorted(FAULTS)), help="Only such faults (default: all)."
)
@click.option(
    "--excessive-drift",
    is_flag=True,
    help="Let leaders' clocks drift more than leases allow.  The history should not be linearizable then.",
)
@keep_option
def main(
    files: tuple[Path, ...],
    seconds: float,
    seed: int,
    gateway: bool,
    faults: tuple[str, ...],
    excessive_drift: bool,
    keep: Path | None,
) -> None:
    """Check histories, by default that of clients of real nodes under faults.

    The exit code is 1 if one of them is not linearizable, or if a fault never had an effect.
    """
    with running("histories", "history", keep) as run:
        if not files:
            names = tuple(dict.fromkeys(faults)) or tuple(FAULTS)
            try:
                made = run_real_nodes(
                    run.home, seconds, seed, gateway=gateway, faults=names, excessive_drift=excessive_drift
                )
            except (NoProgress, NoEffect) as error:
                run.judged(Verdict("clients of real nodes", broken=(str(error),)))
                return
            run.say(f"{made.history}: {made.summary}")
            files = (made.history,)
        sys.exit(not check(files))


def check(files: tuple[Path, ...]) -> bool:
    """Whether all histories are linearizable; prints what is found."""
    acknowledged: Counter[str] = Counter()
    found: dict[Path, list[str]] = {}
    for path in files:
        entries = read_history(path)
        acknowledged.update(entry.kind for entry in entries if entry.outcome == "ok")
        found[path] = list(violations(entries))
    try:
        by_porcupine = problems_of(build(), files)
    except NotBuilt as reason:
        click.echo(f"not checked by porcupine: {reason}")
        by_porcupine = {}
    for path in files:
        for problem in found[path]:
            click.echo(f"{path}: {problem}")
        if path in by_porcupine:
            click.echo(f"{path}: porcupine: {by_porcupine[path]}")
    click.echo(f"acknowledged: {', '.join(f'{kind} {count}' for kind, count in sorted(acknowledged.items()))}")
    wrong = [path for path in files if found[path] or path in by_porcupine]
    click.echo(f"{len(files) - len(wrong)} of {len(files)} histories are linearizable")
    return not wrong


if __name__ == "__main__":
    main()
