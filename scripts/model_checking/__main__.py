"""The command behind `scripts/tlc`."""

from __future__ import annotations

import sys
from typing import Final

import click

from scripts.common.run import FAILED, command, impossible, interruptible
from scripts.model_checking.models import NO_MUTATION, Model, SpecifiedMutant, hazards, models, mutants, rules
from scripts.model_checking.tlc import Result, SpecificationError, Tlc, TlcMissingError, jar

SECONDS: Final = click.FloatRange(0, min_open=True)
NUMBER: Final = click.IntRange(1)
RANDOM_S: Final = 60.0
"""How long random behaviours are tried of a model that cannot be searched."""


@command
@click.argument("names", nargs=-1, metavar="[MODEL...]")
@click.option("--list", "is_listing", is_flag=True, help="List the models without checking them.")
@click.option("--mutation", default=NO_MUTATION, help="Switch this rule of the specification off.")
@click.option("--only", metavar="PROPERTY", help="Check this property alone.")
@click.option("--simulate", "simulate_s", type=SECONDS, metavar="SECONDS", help="Try random behaviours for so long.")
@click.option(
    "--depth", type=NUMBER, default=100, show_default=True, help="With --simulate, the most steps of a behaviour."
)
@click.option("--mutants", "is_hunting", is_flag=True, help="Switch off each rule in turn; TLC must notice every time.")
@click.option(
    "--limit", "limit_s", type=SECONDS, default=300.0, show_default=True, help="With --mutants, how long one may take."
)
@click.option("--workers", type=NUMBER, default=1, show_default=True, help="How many threads search.")
@click.option(
    "--heap",
    "heap_mb",
    type=click.IntRange(64),
    default=2048,
    show_default=True,
    metavar="MIB",
    help="How much memory Java may use.",
)
def main(
    names: tuple[str, ...],
    is_listing: bool,
    mutation: str,
    only: str | None,
    simulate_s: float | None,
    depth: int,
    is_hunting: bool,
    limit_s: float,
    workers: int,
    heap_mb: int,
) -> None:
    """Check models of the specification with TLC, by default all that can be searched.

    The last line about a model has the number of states, the distinct ones, the depth of the search, the time, and the
    verdict.  The exit code is 1 if a property is broken, or if a mutant is not found; 2 without Java or TLC.
    """
    known = models()
    if is_listing:
        width = max(map(len, known)) + 3
        click.echo("\n".join(f"{name:<{width}}{model.purpose}" for name, model in known.items()))
        return
    for name in names:
        if name not in known:
            impossible(f"there is no model {name}: scripts/tlc --list names them")
    if mutation != NO_MUTATION and mutation not in rules():
        impossible(f"--mutation {mutation!r}: the specification has no such rule; mutants.toml names them")
    left_out = {hazard.model for hazard in hazards()} | {name for name, model in known.items() if model.is_random}
    chosen = [model for name, model in known.items() if (name in names if names else name not in left_out)]
    try:
        tlc = Tlc(jar(), workers, heap_mb, is_short=is_hunting, progress=_show_progress)
        with interruptible():
            if is_hunting:
                of_models = [mutant for mutant in (*mutants(), *hazards()) if not names or mutant.model in names]
                found = [_hunt(tlc, known[mutant.model], mutant, limit_s) for mutant in of_models]
                click.echo(f"{sum(found)} of {len(found)} mutants found")
                sys.exit(0 if all(found) else FAILED)
            results = [_check(tlc, model, mutation, only, simulate_s, depth) for model in chosen]
    except (TlcMissingError, SpecificationError, ValueError) as error:
        impossible(str(error))
    sys.exit(FAILED if any(result.broken for result in results) else 0)


def _check(tlc: Tlc, model: Model, mutation: str, only: str | None, simulate_s: float | None, depth: int) -> Result:
    if model.is_random and simulate_s is None:
        simulate_s = RANDOM_S
    result = tlc.check(model, mutation, only, simulate_s, depth)
    _end_progress()
    if result.behaviour:
        click.echo(result.told())
    click.echo(f"{model.name}: {result.line}")
    return result


def _hunt(tlc: Tlc, model: Model, mutant: SpecifiedMutant, limit_s: float) -> bool:
    """Whether TLC finds the property broken that the table names."""
    simulate_s = limit_s if mutant.simulate else None
    result = tlc.check(model, mutant.mutation, mutant.breaks, simulate_s, mutant.depth, limit_s)
    _end_progress()
    steps = f"in {len(result.behaviour)} states" if result.broken else "NOT FOUND"
    click.echo(
        f"{mutant.name}: {model.name} breaks {mutant.breaks} {steps}; {result.states} states, {result.seconds:.0f} s"
    )
    return result.broken is not None


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{text}\x1b[K", nl=False, err=True)
    else:
        click.echo(text, err=True)


def _end_progress() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)


if __name__ == "__main__":
    main()
