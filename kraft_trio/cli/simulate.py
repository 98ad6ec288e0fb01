"""`kraft simulate`: runs whole clusters in virtual time, with random faults or from scenario scripts."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import SystemRandom

import attrs
import click

from kraft_trio.cli.simulate_campaign import FanOut, run_kept_campaign
from kraft_trio.cli.simulate_state import Sitting, run_sitting
from kraft_trio.cli.simulation_display import SeedsDisplay, ShrinkDisplay
from kraft_trio.cli.terminal.json_option import echo_json, json_option
from kraft_trio.cli.terminal.output import echo, echo_line
from kraft_trio.cli.terminal.paths import ExistingPath, NamedPath
from kraft_trio.cli.terminal.termination import terminations_as_interrupts
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.campaign import Summary, report_fields, run_campaign
from kraft_trio.simulation.campaign.outcome import Outcome
from kraft_trio.simulation.campaign.seed_run import SeedRuns, TraceTo, run_plan, run_seed
from kraft_trio.simulation.campaign.shrink import shrink
from kraft_trio.simulation.commands.simulated_machine import (
    MACHINE_OPTION,
    SERDE_OPTION,
    machine_named,
    serde_named,
)
from kraft_trio.simulation.faults.nemesis import PROFILES, PlanOptions, make_plan, parse_profiles
from kraft_trio.simulation.script.parts import duration_from_text
from kraft_trio.simulation.script.run import ScriptOutcome, run_script
from kraft_trio.simulation.script.script import Script, StepLine, read_script
from kraft_trio.system.machine import processors

_SEED_IN_PATH = "{seed}"
_OUT = "Keep results and the traces of failing seeds as Parquet; a later run continues there."
_STATE = (
    "Search seeds over all mixes of --faults, and keep what they find; a later run continues there, "
    "with other --seeds if they are given."
)
_WITH_STATE = ("state", "as_json", "is_report", "seeds", "nodes", "observers", "duration", "faults", "jobs")


@attrs.frozen
class _Request:
    """The command line's options, except the seeds."""

    runs: SeedRuns
    jobs: int
    trace: str | None
    ndjson: bool
    messages: bool
    history: str | None
    as_json: bool


@click.command()
@click.argument("files", nargs=-1, type=ExistingPath(dir_okay=False, path_type=Path))
@click.option("--seed", type=WholeNumber(0), help="Run this seed (default: a random one).")
@click.option("--seeds", metavar="A:B", help="Run the seeds from A to B, excluding B.")
@click.option("--nodes", type=WholeNumber(0), help="Number of voters (default: each seed chooses).")
@click.option("--observers", type=WholeNumber(0), help="Number of observers (default: each seed chooses).")
@click.option("--time", "duration", default="60s", show_default=True, help="How long faults happen, in virtual time.")
@click.option(
    "--faults",
    default="all",
    show_default=True,
    help=f"all, none, or a comma-separated subset of {', '.join(PROFILES)}.",
)
@click.option(
    "--clique",
    is_flag=True,
    help="Break links for good around a majority, which must keep committing; no other faults.",
)
@click.option("--witness", is_flag=True, help="Make the last voter a witness; the voters do not change.")
@click.option(MACHINE_OPTION, "state_machine", metavar="MODULE:FACTORY", help="Test an application's state machine.")
@click.option(SERDE_OPTION, metavar="MODULE:NAME", help="The serde of its commands (default: bytes).")
@click.option("--jobs", type=WholeNumber(1), help="Number of processes (default: number of CPUs).")
@click.option(
    "--trace",
    metavar="FILE",
    type=NamedPath(),
    help="Write a trace of every event; with several seeds, FILE must contain {seed}.",
)
@click.option("--ndjson", is_flag=True, help="Write the trace as lines of JSON instead of msgpack.")
@click.option("--messages", is_flag=True, help="Include every network message in the trace.")
@click.option(
    "--history",
    metavar="FILE",
    type=NamedPath(),
    help="Write what clients asked for and were told, for scripts/check-linearizability; "
    "with several seeds, FILE must contain {seed}.",
)
@click.option("--out", type=NamedPath(path_type=Path, file_okay=False), metavar="DIR", help=_OUT)
@click.option("--state", type=NamedPath(path_type=Path, file_okay=False), metavar="DIR", help=_STATE)
@click.option("--report", "is_report", is_flag=True, help="With --state: run no seeds, only tell what they reach.")
@click.option("--spark", is_flag=True, help="Run the seeds as Spark tasks, locally or on --master.")
@click.option("--master", metavar="URL", help="Spark's master, such as local[4] or spark://host:7077.")
@click.option("--chunk", type=WholeNumber(1), help="Seeds per task (default: about a second of work).")
@click.option("--shrink", "shrinks", is_flag=True, help="Reduce the first failing seed to a minimal scenario script.")
@json_option
@click.pass_context
def simulate(
    context: click.Context,
    files: tuple[Path, ...],
    seed: int | None,
    seeds: str | None,
    nodes: int | None,
    observers: int | None,
    duration: str,
    faults: str,
    clique: bool,
    witness: bool,
    state_machine: str | None,
    serde: str | None,
    jobs: int | None,
    trace: str | None,
    ndjson: bool,
    messages: bool,
    history: str | None,
    out: Path | None,
    state: Path | None,
    is_report: bool,
    spark: bool,
    master: str | None,
    chunk: int | None,
    shrinks: bool,
    as_json: bool,
) -> int:
    """Simulate clusters and check invariants.

    Clusters of whole nodes run in virtual time, and every step is checked.  With seeds, the faults are random.  They
    end before the run does, and a majority must then make progress.  With --clique the faults stay: links around a
    majority break for good, and the majority must keep committing.  With FILEs, the command runs these scenario
    scripts and prints the effects of each step.

    With --state-machine, nodes run that state machine, and clients execute the commands that its `random_command`
    makes.  Replicas must agree on results and states, and clients' histories must be linearizable.

    With --state, each seed has one of the possible mixes of faults.  Ctrl-C ends a sitting, and the same command
    without --seeds continues.  DIR/coverage.html shows which messages, actions of the specification and neighbours of
    actions the seeds have reached.

    The exit code is 1 if an invariant is violated or an expectation fails.  The output then contains the command that
    repeats the run.

    \b
    Examples:
      kraft simulate --seeds 0:100 --faults network,process
      kraft simulate --seed 7 --trace trace.msgpack
    """
    if files and (option := _given_for_seeds(context)) is not None:
        raise click.UsageError(f"{option} and FILE exclude each other: a script is complete in itself", context)
    if state is None and is_report:
        raise click.UsageError("--report needs --state DIR", context)
    if state is not None and (other := _given(context, [*_WITH_STATE, "files"])) is not None:
        raise click.UsageError(f"{other} and --state exclude each other", context)
    if trace is None and (ndjson or messages):
        raise click.UsageError(f"{'--ndjson' if ndjson else '--messages'} needs --trace FILE", context)
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other", context)
    if master is not None and not spark:
        raise click.UsageError(f"--master {master}: needs --spark", context)
    is_campaign = spark or out is not None
    if chunk is not None and not is_campaign:
        raise click.UsageError("--chunk needs --spark or --out DIR", context)
    if trace is not None and is_campaign:
        raise click.UsageError(
            f"--trace and {'--spark' if spark else '--out'} exclude each other: --out keeps the traces of failures",
            context,
        )
    if history is not None and is_campaign:
        raise click.UsageError(f"--history and {'--spark' if spark else '--out'} exclude each other", context)
    if shrinks and as_json:
        raise click.UsageError("--shrink and --json exclude each other: a script is no JSON", context)
    request = _Request(
        SeedRuns(_plan_options(nodes, observers, duration, faults, clique, witness, state_machine, serde)),
        jobs or processors(),
        trace,
        ndjson,
        messages,
        history,
        as_json,
    )
    if files:
        return _run_scripts(files, request)
    if state is not None:
        return _sit(context, state, seeds, request, is_report)
    chosen = _seeds(seed, seeds)
    for option, path in (("--trace", trace), ("--history", history)):
        if path is not None and len(chosen) > 1 and _SEED_IN_PATH not in path:
            raise click.UsageError(
                f"{option} {path}: one file for {len(chosen)} seeds; expected {_SEED_IN_PATH} in its name"
            )
    if is_campaign:
        fan_out = FanOut(request.jobs, chunk, spark, master, out, as_json)
        summary = run_kept_campaign(chosen, request.runs, fan_out)
        return _exit_code(summary, request, shrinks)
    return _run_seeds(chosen, request, shrinks)


def _plan_options(
    nodes: int | None,
    observers: int | None,
    duration: str,
    faults: str,
    clique: bool,
    witness: bool,
    state_machine: str | None,
    serde: str | None,
) -> PlanOptions:
    if state_machine is not None:
        serde_named(serde, machine_named(state_machine)())
    try:
        return PlanOptions(
            voters=nodes,
            observers=observers,
            duration_us=_duration_us(duration),
            profiles=parse_profiles(faults),
            clique=clique,
            witness=witness,
            state_machine=state_machine,
            serde=serde,
        )
    except ConfigError as error:
        raise click.UsageError(f"--{error}") from error


def _given_for_seeds(context: click.Context) -> str | None:
    """The first option given that applies to seeds only."""
    return _given(context, ["files", "as_json", "trace", "ndjson", "messages"])


def _given(context: click.Context, besides: Collection[str]) -> str | None:
    """The first option given that is none of these."""
    return next((option for name, option in _options_given(context) if name not in besides), None)


def _options_given(context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            yield name, parameter.opts[0]


def _duration_us(text: str) -> int:
    duration_us = duration_from_text(text)
    if duration_us is None:
        raise click.UsageError(f"--time {text}: expected a duration, as in 500ms, 60s, 10m or 2h")
    return duration_us


def _seeds(seed: int | None, seeds: str | None) -> Sequence[int]:
    if seeds is None:
        return [SystemRandom().randrange(2**32) if seed is None else seed]
    first, colon, last = seeds.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal()) or int(first) >= int(last):
        raise click.UsageError(f"--seeds {seeds}: expected A:B, two whole numbers, the second the larger")
    return range(int(first), int(last))


# Seeds


def _run_seeds(seeds: Sequence[int], request: _Request, shrinks: bool) -> int:
    began = time.monotonic()
    jobs = min(request.jobs, len(seeds))
    run = partial(_run_one, request=request)
    summary = Summary()
    with terminations_as_interrupts():
        try:
            with SeedsDisplay(len(seeds), tells_violations=not request.as_json) as display:

                def ended(outcome: Outcome) -> None:
                    summary.add(outcome)
                    display.ended(outcome, request.runs.replay)

                run_campaign(seeds, run, jobs=jobs, on_outcome=ended)
        finally:
            # Also of the seeds that ran before an interrupt.
            if request.as_json:
                echo_json(report_fields(summary, time.monotonic() - began, request.runs.replay))
            elif summary.seeds:
                for line in summary.lines(time.monotonic() - began):
                    echo_line(line)
    return _exit_code(summary, request, shrinks)


def _exit_code(summary: Summary, request: _Request, shrinks: bool) -> int:
    if not summary.violations:
        return 0
    if shrinks:
        # A seed that ended its process would end this one too.
        ended = [outcome for outcome in summary.violations if outcome.digest]
        if ended:
            _shrink(min(ended, key=lambda outcome: outcome.seed), request)
        else:
            echo("nothing to shrink: every failing seed took its process down", err=True)
    return 1


def _run_one(seed: int, request: _Request) -> Outcome:
    history_to = None if request.history is None else request.history.replace(_SEED_IN_PATH, str(seed))
    if request.trace is None:
        return run_seed(seed, request.runs.options, history_to=history_to)
    path = request.trace.replace(_SEED_IN_PATH, str(seed))
    trace_to = TraceTo(path, request.runs.replay(seed), ndjson=request.ndjson, messages=request.messages)
    return run_seed(seed, request.runs.options, trace_to, history_to)


def _shrink(outcome: Outcome, request: _Request) -> None:
    plan = make_plan(outcome.seed, request.runs.options)
    echo(f"shrinking seed {outcome.seed}: {len(plan.faults)} faults, {len(plan.header.nodes)} nodes", err=True)
    shrunk = shrink(plan, outcome, run_plan, on_progress=ShrinkDisplay())
    failure = shrunk.outcome.failure
    assert failure is not None
    comment = "\n".join(
        [
            f"Shrunk from: {request.runs.replay(outcome.seed)}",
            f"{failure.rule} ({failure.title}) is violated at {failure.time_s:.6f} s:",
            *(f"  {line}" for fact in failure.facts for line in fact.splitlines()[:1]),
        ]
    )
    echo(shrunk.plan.script(comment).text, nl=False)


_FIELDS = {"nodes": "voters", "observers": "observers", "duration": "duration_us", "faults": "profiles"}
"""The fields of PlanOptions by the names of the options."""


def _sit(context: click.Context, directory: Path, seeds: str | None, request: _Request, is_report: bool) -> int:
    chosen = None if seeds is None else _seeds(None, seeds)
    assert chosen is None or isinstance(chosen, range)
    sitting = Sitting(
        directory=directory,
        seeds=chosen,
        options=request.runs.options,
        given=tuple(_FIELDS[name] for name, _ in _options_given(context) if name in _FIELDS),
        jobs=request.jobs,
        is_report=is_report,
        as_json=request.as_json,
    )
    return 0 if run_sitting(sitting) else 1


# Scripts


def _run_scripts(paths: Sequence[Path], request: _Request) -> int:
    scripts = [read_script(path) for path in paths]
    if request.trace is not None and len(scripts) > 1:
        raise click.UsageError(f"--trace {request.trace}: one file for {len(scripts)} scripts; expected one script")
    if request.as_json:
        outcomes = [_traced(script, request) for script in scripts]
        echo_json(
            [
                {
                    "script": one.script.name,
                    "asExpected": one.failure is None,
                    "failure": one.failure,
                    "virtualSeconds": one.virtual_s,
                }
                for one in outcomes
            ]
        )
        return 0 if all(one.failure is None for one in outcomes) else 1
    failures = [script for script in scripts if not _run_script(script, request)]
    return 1 if failures else 0


def _run_script(script: Script, request: _Request) -> bool:
    """Whether the script met its expectations and violated no invariant."""
    echo(f"# {script.name}")
    outcome = _traced(script, request)
    if outcome.failure is None:
        echo(f"# {script.name}: as expected, {outcome.virtual_s:.3f} virtual seconds")
        return True
    echo(outcome.failure)
    return False


def _traced(script: Script, request: _Request) -> ScriptOutcome:
    show = _show_nothing if request.as_json else _show
    if request.trace is None:
        return run_script(script, on_step=show)
    command = shlex.join(["kraft", "simulate", script.name])
    trace_to = TraceTo(request.trace, command, ndjson=request.ndjson, messages=request.messages)
    with trace_to.writer(script.header.seed, script.text) as writer:
        return run_script(script, on_step=show, on_trace=writer.attach)


def _show_nothing(_line: StepLine) -> None:
    pass


def _show(line: StepLine) -> None:
    for text in line.printed():
        echo(text)
