"""Runs TLC on traces, and says which event is the first that cannot be."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from scripts.model_checking import messages
from scripts.model_checking.models import SPEC
from scripts.model_checking.tlc import SpecificationError
from scripts.model_checking.values import value_of
from scripts.trace_checking import module
from scripts.trace_checking.steps import NOBODY, Shown, Step, Steps

LIMIT_S: Final = 600.0


@attrs.frozen
class Refusal:
    """The first step of a trace that the specification does not have."""

    step: Step
    before: Shown
    """What the specification has of the node before the step.  Its ends are offsets of the trace."""
    outcomes: tuple[Shown, ...] = ()
    """What the specification would have after it.  Empty if the step cannot happen at all."""
    broken: str | None = None
    """The property that would not hold after it."""

    def told(self) -> str:
        """The two sides, as sentences."""
        event, node = self.step.event, f"node {self.step.event.node}"
        lines = [
            f"event {event.sequence} at {event.time_us / 1e6:.6f} s cannot be: {node} {_told_step(self.step)}",
            f"  the trace: after it, {node} {_told(self.step.shown)}{_told_role(self.step)}",
            f"  the specification: before, {node} {_told(self.before)}",
        ]
        if self.broken is not None:
            lines.append(f"  the specification: then {self.broken} would not hold")
        elif self.outcomes:
            lines += [f"  the specification: after it, {node} {_told(outcome)}" for outcome in self.outcomes]
        else:
            lines.append("  the specification: no action does this now")
        return "\n".join(lines)


@attrs.frozen
class Verdict:
    """What TLC has found about one trace."""

    steps: int
    followed: int
    """How many of the steps are a behaviour of the specification."""
    refusal: Refusal | None = None


@attrs.frozen
class Check:
    """What TLC has found about several traces."""

    verdicts: tuple[Verdict, ...]
    states: int
    seconds: float


@attrs.define
class _Followed:
    at: int = -1
    next: Any = None
    broken: str | None = None
    outcomes: list[Any] = attrs.Factory(list)


def check(jar: Path, traces: Sequence[Steps], limit_s: float = LIMIT_S) -> Check:
    """Check traces of quorums with the same replicas and the same voters.

    Raises SpecificationError if TLC reports an error, and subprocess.TimeoutExpired after `limit_s`.
    """
    began_s = time.monotonic()
    followed, states = _run(jar, traces, limit_s, is_loose=False)
    refused = [number for number, trace in enumerate(traces) if followed[number].at < len(trace.steps)]
    cut = [
        attrs.evolve(traces[number], steps=traces[number].steps[: followed[number].at + 1])
        for number in refused
        if followed[number].broken is None
    ]
    loose = iter(_run(jar, cut, limit_s, is_loose=True)[0] if cut else ())
    verdicts = []
    for number, trace in enumerate(traces):
        seen, steps = followed[number], len(trace.steps)
        if number not in refused:
            verdicts.append(Verdict(steps, steps))
            continue
        outcomes = () if seen.broken else tuple(_shown(trace, outcome) for outcome in next(loose).outcomes)
        refusal = Refusal(trace.steps[seen.at], _shown(trace, seen.next), outcomes, seen.broken)
        verdicts.append(Verdict(steps, seen.at, refusal))
    return Check(tuple(verdicts), states, time.monotonic() - began_s)


def _run(jar: Path, traces: Sequence[Steps], limit_s: float, *, is_loose: bool) -> tuple[list[_Followed], int]:
    with tempfile.TemporaryDirectory(prefix="kraft-traces-") as folder:
        file = Path(folder, f"{module.NAME}.tla")
        file.write_text(module.module(traces), encoding="utf-8")
        file.with_suffix(".cfg").write_text(module.configuration(traces, is_loose=is_loose), encoding="utf-8")
        done = subprocess.run(
            [
                *("java", "-Xmx2048m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss16m"),
                *(f"-Djava.io.tmpdir={folder}", f"-DTLA-Library={SPEC}", "-cp", jar, "tlc2.TLC"),
                *("-workers", "1", "-tool", "-metadir", Path(folder, "states"), file),
            ],
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
            timeout=limit_s,
        )
    followed = [_Followed() for _ in traces]
    states, problems, printed = 0, list[str](), list[str]()
    for message in messages.messages(done.stdout.splitlines(keepends=True)):
        if message.code == 0:
            printed.append(message.text)
        elif message.code in messages.STATISTICS:
            states = messages.Statistics.of(message.text).states
        elif message.severity in messages.ERRORS:
            problems.append(message.text)
    if problems or not printed:
        raise SpecificationError("\n".join(problems) or done.stdout + done.stderr)
    for which, at, broken, shown in _values(printed):
        seen = followed[which - 1]
        if is_loose and at == len(traces[which - 1].steps):
            seen.outcomes += [shown] if shown not in seen.outcomes else []
        elif broken != "none":
            seen.broken = broken
        elif at > seen.at:
            seen.at, seen.next, seen.broken = at, shown, None
    return followed, states


def _values(printed: Sequence[str]) -> Iterator[tuple[int, int, str, Any]]:
    for text in re.split(r'<<\s*"followed",', "\n".join(printed))[1:]:
        yield tuple(value_of("<<" + text))


def _shown(trace: Steps, value: Any) -> Shown:
    offsets = trace.offsets
    end, synced, hw = (offsets[min(value[field], len(offsets) - 1)] for field in ("end", "synced", "hw"))
    return Shown(value["epoch"], value["role"], value["leader"], end, synced, hw, value["voters"])


def _told(shown: Shown) -> str:
    leader = "no leader" if shown.leader == NOBODY else f"leader {shown.leader}"
    return (
        f"is {shown.role} in epoch {shown.epoch} with {leader}, log end {shown.end}, synced end {shown.synced}, "
        f"high watermark {shown.hw}, voters {' '.join(sorted(shown.voters))}"
    )


def _told_role(step: Step) -> str:
    return f", voted for {step.voted}, knows leader {step.known_leader}" if step.is_role else ""


def _told_step(step: Step) -> str:
    shown, details = step.shown, step.event.details
    match step.kind:
        case "begin" | "restart":
            return "starts"
        case "role":
            return f"becomes {shown.role} in epoch {shown.epoch}"
        case "leads":
            return f"is elected in epoch {shown.epoch}"
        case "vote" | "prevote":
            what = "vote" if step.kind == "vote" else "pre-vote"
            return (
                f"grants its {what} in epoch {step.candidate_epoch} to {details.get('candidate', details.get('voted'))}"
            )
        case "append":
            return f"{'appends' if shown.role == 'Leader' else 'fetches'} records up to offset {shown.end}"
        case "truncate":
            return f"truncates its log to offset {shown.end}"
        case "sync":
            return f"syncs its log up to offset {shown.synced}"
        case "hw":
            return f"takes all below offset {shown.hw} for committed"
        case _:
            return (
                f"logs {step.event.cause!r}" if step.event.kind == "log" else f"has an event of kind {step.event.kind}"
            )
