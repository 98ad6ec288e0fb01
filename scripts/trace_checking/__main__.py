"""The command behind `scripts/trace-check`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from kraft_trio.tracing.files import TraceFileError, open_trace
from scripts.common.run import FAILED, command, impossible
from scripts.model_checking.tlc import SpecificationError, TlcMissingError, jar
from scripts.trace_checking.checking import LIMIT_S, check
from scripts.trace_checking.steps import NotTraceableError, steps_of


@command
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--limit", "limit_s", default=LIMIT_S, show_default=True, metavar="SECONDS", help="How long TLC may run.")
def main(files: tuple[Path, ...], limit_s: float) -> None:
    """Check whether traces of `kraft simulate --trace` are behaviours of the specification in spec/.

    Tells the first event that cannot be, with what the trace and the specification say about its node.  The exit code
    is 1 if there is such an event; 2 without Java or TLC, or if a trace shows what the check does not know.
    """
    is_refused = False
    for file in files:
        try:
            with open_trace(file) as (_, events):
                steps = steps_of(events)
            found = check(jar(), [steps], limit_s)
        except (TlcMissingError, SpecificationError, TraceFileError, NotTraceableError) as error:
            impossible(f"{file}: {error}")
        except subprocess.TimeoutExpired:
            impossible(f"{file}: TLC has not ended in {limit_s:.0f} s")
        verdict = found.verdicts[0]
        if verdict.refusal is not None:
            is_refused = True
            click.echo(verdict.refusal.told())
        click.echo(
            f"{file}: {verdict.followed} of {verdict.steps} steps are a behaviour of the specification; "
            f"{found.states} states, {found.seconds:.0f} s"
        )
    sys.exit(FAILED if is_refused else 0)


if __name__ == "__main__":
    main()
