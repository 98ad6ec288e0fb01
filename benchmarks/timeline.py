"""A picture of one commit over three nodes, the one that took the median time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.children import run_to_end, start_child, stopping
from benchmarks.context import Context
from benchmarks.kraft_cluster import KraftCluster
from benchmarks.report import Section
from benchmarks.timeline_picture import draw, median_append

PICTURE: Final = Path(__file__).parents[1] / "docs" / "images" / "commit-timeline.svg"
SECONDS: Final = 120.0
LEADER: Final = "leader"


async def measure(context: Context) -> Section:
    appends = context.pick(2000, 400)
    events = await events_of(context, appends, SECONDS)
    PICTURE.write_text(draw(events, LEADER))
    began, ended = median_append(events[LEADER])
    rows = []
    for node, noted in events.items():
        inside = [event for event in noted if began <= event[1] < ended]
        turns, fsyncs = ([event for event in inside if event[0] == kind] for kind in ("turn", "fsync"))
        sent = sum(event[0] == "sent" for event in inside)
        in_turns, in_fsyncs = (sum(event[2] - event[1] for event in of) / 1000 for of in (turns, fsyncs))
        rows.append((node, f"{len(turns)}", f"{in_turns:.0f}", f"{sent}", f"{in_fsyncs:.0f}"))
    return Section(
        name="timeline",
        title=f"One commit of {(ended - began) / 1000:.0f} µs",
        method=(
            f"The median of {appends // 2} appends of 1 KiB by Node.append in the leader's process, one after another. "
            "Taking the times makes it slower."
        ),
        columns=("node", "turns of the event loop", "in turns µs", "messages sent", "in fsync µs"),
        rows=tuple(rows),
        notes=(f"The picture is docs/images/{PICTURE.name}.",),
    )


async def events_of(context: Context, appends: int, seconds: float) -> dict[str, list[list[Any]]]:
    """Run the three nodes as load programs; their events, the leader's in the middle.

    Raises BenchmarkError if the appends take longer than that.
    """
    with context.fresh_directory("timeline") as directory:
        async with KraftCluster.started(directory, context.overrides) as cluster:
            for node in cluster.node_ids:
                await cluster.stop(node)
            first, leader, last = cluster.node_ids
            files = {node: directory / f"events-{node}.json" for node in cluster.node_ids}
            program = [sys.executable, "-m", "benchmarks.loads.timeline"]
            overrides = [f"--override={key}={value}" for key, value in context.overrides.items()]
            commands = {
                node: [*program, *overrides, str(of.properties), str(files[node])]
                for node, of in cluster.quorum.nodes.items()
            }
            followers = {
                node: await start_child(f"node {node}", commands[node], directory / f"timeline-{node}.log")
                for node in (first, last)
            }
            async with stopping(followers):
                await run_to_end([*commands[leader], "--appends", str(appends)], seconds)
            names = {first: "follower 1", leader: LEADER, last: "follower 2"}
            return {name: json.loads(files[node].read_text()) for node, name in names.items()}
