"""What the slowest commits wait for."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from benchmarks.context import Context
from benchmarks.measurement import percentile
from benchmarks.report import Section
from benchmarks.tail_causes import FOR_A_PROCESSOR, Commit, beside_the_slowest, causes_of_the_slowest, commits_of
from benchmarks.timeline import LEADER, events_of

SLOWEST: Final = 0.01
WARM_UP: Final = 1000
SECONDS: Final = 600.0
METHOD: Final = (
    "{number:,} appends of 1 KiB by Node.append in the leader's process, one after another, after {warm_up:,} others. "
    "All three nodes are traced, which makes them slower. Each commit is followed back from its second durable copy: "
    "its time is that of the event loops, fsyncs and messages on this path. An event loop waits for a processor while "
    "others run, in a turn or before it, and is blocked by Python's lock or by the kernel; until its event loop runs "
    "is the rest of the time in which a node has something to do, but no turn."
)


async def measure(context: Context) -> list[Section]:
    number, warm_up = context.pick(20_000, 2000), context.pick(WARM_UP, WARM_UP // 5)
    events = await events_of(context, number + warm_up, SECONDS)
    context.say("tail: following the commits back")
    commits = await trio.to_thread.run_sync(commits_of, events, LEADER, warm_up)
    return sections_of(commits, METHOD.format(number=number, warm_up=warm_up))


def sections_of(commits: list[Commit], method: str) -> list[Section]:
    """The times by cause, and what happened during the slowest commits."""
    ordered = sorted(commit.taken / 1e6 for commit in commits)
    p50, p99, p999 = (percentile(ordered, share) for share in (0.5, 0.99, 0.999))
    causes, beside = causes_of_the_slowest(commits, SLOWEST), beside_the_slowest(commits, SLOWEST)
    totals = (sum(getattr(cause, name) for cause in causes) for name in ("usual_ms", "rest_ms", "slowest_ms", "share"))
    waiting = sum(cause.share for cause in causes if cause.what.endswith(FOR_A_PROCESSOR))
    rows = [(cause.what, cause.usual_ms, cause.rest_ms, cause.slowest_ms, cause.share) for cause in causes]
    return [
        Section(
            name="tail",
            title=f"What the slowest {SLOWEST:.0%} of commits wait for",
            method=method,
            columns=("mean of a commit", "around the median ms", "all others ms", "slowest ms", "of the excess"),
            rows=tuple(
                (what, *(f"{ms:.3f}" for ms in times), f"{share:.0%}")
                for what, *times, share in [*rows, ("together", *totals)]
            ),
            notes=(
                f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, p99.9 {p999:.2f} ms, max {ordered[-1]:.1f} ms.",
                f"Waiting for a processor, in any row: {waiting:.0%} of the excess.",
            ),
            data={"causes": [attrs.asdict(cause) for cause in causes], "ms": [round(ms, 3) for ms in ordered]},
        ),
        Section(
            name="tail-beside",
            title=f"What happens during the slowest {SLOWEST:.0%} of commits",
            method="The same commits: how many of them had it at one of the nodes, whether they waited for it or not.",
            columns=("meanwhile", "of the slowest", "of all others"),
            rows=tuple((what, f"{slowest:.1%}", f"{rest:.2%}") for what, slowest, rest in beside),
        ),
    ]
