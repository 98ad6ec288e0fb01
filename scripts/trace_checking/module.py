"""Writes traces as a module of TLA+, with the configuration that TLC needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scripts.trace_checking.steps import NOBODY, Step, Steps, id_of

NAME: Final = "CheckedTraces"


def module(traces: Sequence[Steps]) -> str:
    """The module: it extends Traces.tla and defines the constants.  The traces have the same replicas and voters."""
    replicas = traces[0].replicas
    ids = [(replica, id_of(replica)) for replica in replicas]
    ids += [(name, name) for name in sorted({name for _, name in ids})]
    return f"""\
---- MODULE {NAME} ----
EXTENDS Traces
TheReplicas == {_set(replicas)}
TheIds == {" @@ ".join(f"{_text(member)} :> {_text(name)}" for member, name in ids)}
TheVoters == {_set(sorted(traces[0].initial_voters))}
TheFirst == {_set(traces[0].first)}
TheTraces == <<
{",".join(map(_trace, traces))}>>
====
"""


def configuration(traces: Sequence[Steps], *, is_loose: bool = False) -> str:
    """The configuration.  With `is_loose`, the outcome of the last step of each trace is not compared."""
    bounds = ("MaxRecords", "MaxCrashes", "MaxChanges", "MaxSwaps", "MaxResignations", "MaxSnapshots")
    return "\n".join(
        [
            "CONSTANTS",
            "    Replicas <- TheReplicas",
            "    IdOf <- TheIds",
            "    InitialVoters <- TheVoters",
            "    FirstRunning <- TheFirst",
            "    Base <- TraceBase",
            "    AllTraces <- TheTraces",
            f"    IsLoose = {str(is_loose).upper()}",
            f'    Nobody = "{NOBODY}"',
            f"    MaxEpoch = {max(trace.max_epoch for trace in traces)}",
            *(f"    {bound} = 1000000" for bound in bounds),
            "    SyncsApart = TRUE",
            "    PreVotes = TRUE",
            '    Mutation = "none"',
            "INIT TraceInit",
            "NEXT TraceNext",
            "CONSTRAINT Progress",
            "CHECK_DEADLOCK FALSE",
            "",
        ]
    )


def _trace(steps: Steps) -> str:
    return "  <<" + ",\n    ".join(_event(steps, step) for step in steps.steps) + ">>"


def _event(steps: Steps, step: Step) -> str:
    shown = step.shown
    value = [f"voters |-> {_set(sorted(step.voters))}"]
    if step.candidate is not None:
        value += [f"candidate |-> {_text(step.candidate)}", f"epoch |-> {step.candidate_epoch}"]
    if step.old is not None:
        value.append(f"old |-> {_text(step.old)}")
    if step.is_damaged:
        value.append("damaged |-> TRUE")
    if step.event.details.get("record_epoch") is not None:
        value.append(f"lastEpoch |-> {step.event.details['record_epoch']}")
    if step.is_role:
        value += [f"voted |-> {_text(step.voted)}", f"known |-> {_text(step.known_leader)}"]
    if step.to is not None:
        value.append(f"to |-> {steps.index(step.to)}")
    fields = [
        *(_text(step.kind), _text(step.node), str(shown.epoch), _text(shown.role), _text(shown.leader)),
        *(str(steps.index(offset)) for offset in (shown.end, shown.synced, shown.hw)),
        *(_set(sorted(shown.voters)), f"[{', '.join(value)}]"),
    ]
    return f"E({', '.join(fields)})"


def _set(texts: Iterable[str]) -> str:
    return "{" + ", ".join(map(_text, texts)) + "}"


def _text(text: str) -> str:
    return f'"{text}"'
