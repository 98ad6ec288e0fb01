"""The command behind `scripts/fuzz`."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click

from scripts.common.run import Run, command, running
from scripts.common.verdict import Verdict
from scripts.fuzzing.campaign import Outcome, run_apart
from scripts.fuzzing.decoder import Decoder
from scripts.fuzzing.decoders import DECODERS


@command
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

    with running("fuzz", "decoder") as run, ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(partial(_play, run, seconds, seed), chosen):
            for place, finding in outcome.findings.items():
                run.say(f"{finding.decoder}: {place}\n{finding.data[:2000]!r}\n{finding.error}")
            if findings is not None:
                _write(findings, outcome)
            run.judged(_verdict(outcome))


def _play(run: Run, seconds: float, seed: int, decoder: Decoder) -> Outcome:
    def tell(now: Outcome) -> None:
        run.say(", ".join([decoder.name, *(f"{column} {figure}" for column, figure in _verdict(now).figures.items())]))

    return run_apart(decoder, seconds, seed, tell)


def _verdict(outcome: Outcome) -> Verdict:
    figures = {
        "CPU s": f"{outcome.seconds:.0f}",
        "examples": f"{outcome.examples:,}",
        "accepted": f"{outcome.accepted:,}",
        "longest": f"{outcome.longest_s * 1000:.0f} ms",
    }
    return Verdict(outcome.decoder, figures, tuple(outcome.findings), held="no findings")


def _write(directory: Path, outcome: Outcome) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number, finding in enumerate(outcome.findings.values()):
        path = directory / f"{outcome.decoder}-{time.time_ns()}-{number}"
        path.write_bytes(finding.data)
        path.with_suffix(".txt").write_text(finding.error)


if __name__ == "__main__":
    main()
