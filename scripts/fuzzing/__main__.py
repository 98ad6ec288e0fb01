"""The command behind `scripts/fuzz`."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from scripts.fuzzing.campaign import Outcome, run_apart
from scripts.fuzzing.decoders import DECODERS


@click.command(context_settings={"max_content_width": 120})
@click.argument("names", nargs=-1, type=click.Choice(list(DECODERS)), metavar="[DECODER...]")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=60.0, help="Processor time for each decoder.")
@click.option("--seed", type=int, default=0, help="Repeats a run: the same inputs in the same order.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, help="Decoders at a time.")
@click.option("--list", "is_listing", is_flag=True, help="List the decoders without running them.")
@click.option("--findings", type=click.Path(path_type=Path), help="A directory for the inputs that were found.")
def main(names: tuple[str, ...], seconds: float, seed: int, jobs: int, is_listing: bool, findings: Path | None) -> None:
    """Give changed inputs to decoders of foreign bytes, by default to all.

    A decoder must accept each input or refuse it with the error that it documents, in steps and memory in proportion
    to the input's size.  The exit code is 1 if one does not.
    """
    chosen = [decoder for name, decoder in DECODERS.items() if not names or name in names]
    if is_listing:
        for decoder in chosen:
            click.echo(decoder.name)
        return

    def play(name: str) -> Outcome:
        outcome = run_apart(DECODERS[name], seconds, seed, lambda now: click.echo(_row(now), err=True))
        if findings is not None:
            _write(findings, outcome)
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(play, [decoder.name for decoder in chosen]))
    click.echo("| decoder | CPU s | examples | accepted | longest | findings |\n|---|---|---|---|---|---|")
    for outcome in outcomes:
        click.echo(_row(outcome))
    for outcome in outcomes:
        for place, finding in outcome.findings.items():
            click.echo(f"\n{finding.decoder}: {place}\n{finding.data[:2000]!r}\n{finding.error}")
    sys.exit(any(outcome.findings for outcome in outcomes))


def _row(outcome: Outcome) -> str:
    cells = (
        outcome.decoder,
        f"{outcome.seconds:.0f}",
        f"{outcome.examples:,}",
        f"{outcome.accepted:,}",
        f"{outcome.longest_s * 1000:.0f} ms",
        str(len(outcome.findings)),
    )
    return "| " + " | ".join(cells) + " |"


def _write(directory: Path, outcome: Outcome) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number, finding in enumerate(outcome.findings.values()):
        path = directory / f"{outcome.decoder}-{time.time_ns()}-{number}"
        path.write_bytes(finding.data)
        path.with_suffix(".txt").write_text(finding.error)


if __name__ == "__main__":
    main()
