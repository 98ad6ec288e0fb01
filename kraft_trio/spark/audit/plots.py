"""The report's plots as SVG for HTML: one function per plot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kraft_trio.spark.audit.figures import Rows
from kraft_trio.spark.drawing import COLOURS, colour_of, lanes, legend, new_plot, svg, time_axis, times

MOST_COLUMNS: Final = 6
"""Maximum number of columns of a legend."""
MOST_CHARACTERS: Final = 40
"""Maximum length of a directory's name in a plot."""


def leadership(rows: Rows, title: str = "Leadership") -> str:
    """Who led when: a lane for each node, with a bar and the epoch for each leadership."""
    nodes = sorted({row["node"] for row in rows})
    figure, axes = new_plot(title, height=0.8 + 0.35 * len(nodes))
    for row in rows:
        begin, end = times([row["began_s"], row["ended_s"]])
        lane = nodes.index(row["node"])
        colour = colour_of(row["node"])
        axes.barh(lane, end - begin, left=begin, height=0.7, color=colour, edgecolor="white", linewidth=0.4)
    shown = [row for row in rows if len(rows) <= 40]
    for row in shown:
        begin, end = times([row["began_s"], row["ended_s"]])
        axes.annotate(
            str(row["epoch"]), (begin + (end - begin) / 2, nodes.index(row["node"])), ha="center", va="center",
            fontsize=7, color="white", clip_on=True,
        )  # fmt: skip
    lanes(axes, [f"node {node}" for node in nodes])
    time_axis(axes, [row["began_s"] for row in rows])
    return svg(figure, "leaders over time; the number is the epoch")


def voters(rows: Rows, end_s: float) -> str:
    """Plot the voters over time, one lane for each id."""
    ids = sorted({voter for row in rows for voter in row["voters"]}, key=lambda id: (len(id), id))
    figure, axes = new_plot("Voter sets", height=0.8 + 0.35 * len(ids))
    ends = [*(row["began_s"] for row in rows[1:]), max(end_s, rows[-1]["began_s"])]
    for row, end_of_set in zip(rows, ends, strict=True):
        begin, end = times([row["began_s"], end_of_set])
        for voter in row["voters"]:
            lane = ids.index(voter)
            axes.barh(lane, end - begin, left=begin, height=0.55, color=colour_of(voter))
    for row in rows[1:]:
        axes.axvline(times([row["began_s"]])[0], color="#888", linewidth=0.6, linestyle=":")
    lanes(axes, [f"voter {id}" for id in ids])
    time_axis(axes, [row["began_s"] for row in rows])
    return svg(figure, "voters over time; a dotted line is a change")


def commit_latency(rows: Rows) -> str:
    """The distribution of commit latencies."""
    figure, axes = new_plot("Commit latency")
    percentiles = rows[0]["percentiles_ms"]
    axes.plot(percentiles, range(101), color=COLOURS[0], linewidth=1.8)
    for percent in (50, 90, 99):
        value = percentiles[percent]
        axes.plot([value], [percent], "o", color=COLOURS[2], markersize=4)
        axes.annotate(
            f"p{percent} {value:.3g} ms", (value, percent), xytext=(6, -9), textcoords="offset points", fontsize=8
        )
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(left=0)
    axes.set_xlabel("milliseconds from a leader's append to its commit")
    axes.set_ylabel(f"% of {rows[0]['appends']} appends")
    return svg(figure, "commit latency, as percentiles")


def lag(rows: Rows) -> str:
    """How many committed offsets each node lacked, over time."""
    figure, axes = new_plot("Follower lag")
    _lines(axes, rows, "node", "lag")
    axes.set_ylabel("committed offsets it lacks")
    return svg(figure, "how far each node was behind")


def replica_ends(rows: Rows) -> str:
    """Where each replica's log begins and ends."""
    figure, axes = new_plot("Logs of the replicas", height=0.8 + 0.4 * len(rows))
    for lane, row in enumerate(rows):
        axes.barh(
            lane,
            row["log_end"] - row["log_start"],
            left=row["log_start"],
            height=0.55,
            color=COLOURS[lane % len(COLOURS)],
        )
    lanes(axes, _short([row["directory"] for row in rows]))
    axes.set_xlabel("offset")
    return svg(figure, "where the logs begin and end: what is missing on the right is lag, on the left trimmed")


def elections(rows: Rows) -> str:
    """How long each election took, by epoch."""
    figure, axes = new_plot("Election durations")
    axes.bar([str(row["epoch"]) for row in rows], [row["duration_ms"] for row in rows], color=COLOURS[4], width=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(20, integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("milliseconds")
    return svg(figure, "from the first node that asked for votes to the leader")


def log_growth(rows: Rows) -> str:
    """Where each log ended, over time."""
    figure, axes = new_plot("Log growth")
    _lines(axes, rows, "node" if "node" in rows[0] else "directory", "log_end", are_alike=True)
    axes.set_ylabel("log end offset")
    return svg(figure, "how each log grew")


def plots_of(figures: Mapping[str, Rows]) -> Iterator[str]:
    """The plots for which a cluster has enough data, as SVG."""
    draw: list[tuple[str, Callable[[Rows], str]]] = [
        ("leadership", leadership),
        ("voters", lambda rows: voters(rows, _last_time(figures))),
        ("commit_latency", commit_latency),
        ("elections", elections),
        ("follower_lag", lambda rows: lag(rows) if "lag" in rows[0] else replica_ends(rows)),
        ("log_growth", log_growth),
    ]
    for name, plot in draw:
        for source in ("trace", "log"):
            rows = figures.get(f"{source}_{name}")
            if rows:
                yield plot(rows)


def _last_time(figures: Mapping[str, Rows]) -> float:
    times = [row["ended_s"] for name, rows in figures.items() if name.endswith("leadership") for row in rows]
    return max(times, default=0.0)


def _lines(axes: Axes, rows: Rows, key: str, value: str, *, are_alike: bool = False) -> None:
    """A line for each node or directory, with a legend above the plot."""
    of: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        of.setdefault(row[key], []).append(row)
    keys = sorted(of)
    names = [f"node {node}" for node in keys] if key == "node" else _short(keys)
    for lane, (which, name) in enumerate(zip(keys, names, strict=True)):
        colour = colour_of(which) if key == "node" else COLOURS[lane % len(COLOURS)]
        # Later lines are narrower, so that all remain visible when they coincide.
        width = 1.2 + 0.9 * (len(keys) - 1 - lane) * are_alike
        axes.plot(
            times(row["at_s"] for row in of[which]), [row[value] for row in of[which]], label=name, color=colour,
            linewidth=width, drawstyle="steps-post",
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    legend(axes, min(len(keys), MOST_COLUMNS))
    time_axis(axes, [row["at_s"] for row in rows])


def _short(paths: Sequence[str]) -> list[str]:
    """The paths without their common prefix."""
    split = [path.split("/") for path in paths]
    same = 0
    while len(paths) > 1 and all(len(parts) > same + 1 and parts[same] == split[0][same] for parts in split):
        same += 1
    return ["/".join(parts[same:])[-MOST_CHARACTERS:] for parts in split]
