"""The command behind `scripts/trace-check`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from kraft_trio.errors import KraftError
from scripts.common.run import FAILED, command, impossible
from scripts.model_checking.tlc import SpecificationError, TlcMissingError, jar
from scripts.trace_checking.checking import LIMIT_S, check
from scripts.trace_checking.given import quorum, simulated
from scripts.trace_checking.retelling import retold
from scripts.trace_checking.steps import NotTraceableError, steps_of
from scripts.trace_checking.written import read_replicas


@command
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--quorum", "is_quorum", is_flag=True, help="The FILEs are the traces of the nodes of one quorum.")
@click.option("--logs", "are_logs", is_flag=True, help="The FILEs are the directories of one quorum's stopped nodes.")
@click.option(
    *("--limit", "limit_s"),
    type=click.FloatRange(min=0, min_open=True),
    default=LIMIT_S,
    show_default=True,
    metavar="SECONDS",
    help="How long TLC may run.",
)
def main(files: tuple[Path, ...], *, is_quorum: bool, are_logs: bool, limit_s: float) -> None:
    """Check whether traces are behaviours of the specification in spec/.

    A FILE of `kraft simulate --trace` is a trace by itself.  With --quorum, each FILE is that of one node of a quorum.
    It begins with the node's first start.  The order of the FILEs does not matter, and clocks may be apart.

    With --logs, the nodes are those of this project or of Apache Kafka.  Their logs begin at offset 0.  Whether there
    is a behaviour that ends with these logs, and with these epochs and votes, is what is checked.

    Tells the first event that cannot be, with what the trace and the specification say about its node.  The exit code
    is 1 if there is such an event; 2 without Java or TLC, or if a trace shows what the check does not know.
    """
    if is_quorum and are_logs:
        raise click.UsageError("--quorum and --logs exclude each other")
    is_refused = False
    for file in files[:1] if is_quorum or are_logs else files:
        try:
            events = retold(read_replicas(files)) if are_logs else quorum(files) if is_quorum else simulated(file)
            steps = steps_of(events)
            found = check(jar(), [steps], limit_s)
        except (TlcMissingError, SpecificationError, KraftError, NotTraceableError) as error:
            impossible(str(error))
        except OSError as error:
            impossible(f"{error.filename}: {error.strerror}")
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
        if steps.cut is not None:
            click.echo(
                f"{file}: not checked from event {steps.cut.sequence} on: {steps.cut.cause}, which the specification "
                "does not have"
            )
    sys.exit(FAILED if is_refused else 0)


if __name__ == "__main__":
    main()
