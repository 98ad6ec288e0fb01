"""The command behind `scripts/attack`."""

from __future__ import annotations

from pathlib import Path

import click

from scripts.attacks import ATTACKS
from scripts.attacks.judge import judge
from scripts.attacks.one_quorum import OneQuorum, quorum_kind
from scripts.common.modules import Modules
from scripts.common.run import Run, command, keep_option, running
from scripts.common.verdict import Verdict

MODULES = Modules("scripts.attacks", ATTACKS)


@command
@click.argument("names", nargs=-1, type=click.Choice(ATTACKS), metavar="[NAME...]")
@click.option("--short", is_flag=True, help="Send less, with a longer fetch timeout; this is what the tests run.")
@click.option("--list", "is_listing", is_flag=True, help="List the attacks without running them.")
@keep_option
def main(names: tuple[str, ...], short: bool, is_listing: bool, keep: Path | None) -> None:
    """Attack a quorum of real processes on this machine, by default with every attack.

    The exit code is 1 if the quorum exceeds a bound.
    """
    if is_listing:
        click.echo(MODULES.listing())
        return
    with running("attack", "attack", keep) as run, OneQuorum(run.home, is_patient=short) as quorums:
        # Those that share a quorum one after the other, so that there is only one at a time.
        kinds = list(dict.fromkeys(quorum_kind(MODULES[name]) for name in ATTACKS))
        chosen = [name for name in ATTACKS if not names or name in names]
        for name in sorted(chosen, key=lambda name: kinds.index(quorum_kind(MODULES[name]))):
            _play(run, quorums, name, short)
        run.verdicts.sort(key=lambda verdict: ATTACKS.index(verdict.subject))


def _play(run: Run, quorums: OneQuorum, name: str, is_short: bool) -> None:
    module = MODULES[name]
    run.say(f"{name}: {MODULES.first_line(name)}")
    try:
        verdict = judge(name, module, quorums.of(module), is_short=is_short)
    except (AssertionError, OSError) as error:
        # There was no quorum, or none that could be asked.
        verdict = Verdict(name, broken=(str(error).splitlines()[0] or repr(error),))
    if verdict.broken:
        quorums.stop()
    run.judged(verdict)


if __name__ == "__main__":
    main()
