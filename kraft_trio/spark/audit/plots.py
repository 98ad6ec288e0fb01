"""The report's plots as SVG for HTML: one function per plot."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kraft_trio.spark.audit.figures import Rows

COLOURS: Final = ("#4269d0", "#efb118", "#ff725c", "#3ca951", "#a463f2", "#6cc5b0", "#9c6b4e", "#97bbf5")
MOST_COLUMNS: Final = 6
"""Maximum number of columns of a legend."""
MOST_CHARACTERS: Final = 40
"""Maximum length of a directory's name in a plot."""
_WIDTH_IN: Final = 9.0
_SECONDS_OF_A_CALENDAR: Final = 1e8
"""Times above this count from 1970, times below it from the start of a run."""


def leadership(rows: Rows) -> str:
    """Who led when: a lane for each node, with a bar and the epoch for each leadership."""
    nodes = sorted({row["node"] for row in rows})
    figure, axes = _plot("Leadership", height=0.8 + 0.35 * len(nodes))
    for row in rows:
        begin, end = _times([row["began_s"], row["ended_s"]])
        lane = nodes.index(row["node"])
        colour = _colour_of(row["node"])
        axes.barh(lane, end - begin, left=begin, height=0.7, color=colour, edgecolor="white", linewidth=0.4)
    shown = [row for row in rows if len(rows) <= 40]
    for row in shown:
        begin, end = _times([row["began_s"], row["ended_s"]])
        axes.annotate(
            str(row["epoch"]), (begin + (end - begin) / 2, nodes.index(row["node"])), ha="center", va="center",
            fontsize=7, color="white", clip_on=True,
        )  # fmt: skip
    _lanes(axes, [f"node {node}" for node in nodes])
    _time_axis(axes, [row["began_s"] for row in rows])
    return _svg(figure, "leaders over time; the number is the epoch")


def voters(rows: Rows, end_s: float) -> str:
    """Plot the voters over time, one lane for each id."""
    ids = sorted({voter for row in rows for voter in row["voters"]}, key=lambda id: (len(id), id))
    figure, axes = _plot("Voter sets", height=0.8 + 0.35 * len(ids))
    ends = [*(row["began_s"] for row in rows[1:]), max(end_s, rows[-1]["began_s"])]
    for row, end_of_set in zip(rows, ends, strict=True):
        begin, end = _times([row["began_s"], end_of_set])
        for voter in row["voters"]:
            lane = ids.index(voter)
            axes.barh(lane, end - begin, left=begin, height=0.55, color=_colour_of(voter))
    for row in rows[1:]:
        axes.axvline(_times([row["began_s"]])[0], color="#888", linewidth=0.6, linestyle=":")
    _lanes(axes, [f"voter {id}" for id in ids])
    _time_axis(axes, [row["began_s"] for row in rows])
    return _svg(figure, "voters over time; a dotted line is a change")


def commit_latency(rows: Rows) -> str:
    """The distribution of commit latencies."""
    figure, axes = _plot("Commit latency")
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
    return _svg(figure, "commit latency, as percentiles")


def lag(rows: Rows) -> str:
    """How many committed offsets each node lacked, over time."""
    figure, axes = _plot("Follower lag")
    _lines(axes, rows, "node", "lag")
    axes.set_ylabel("committed offsets it lacks")
    return _svg(figure, "how far each node was behind")


def replica_ends(rows: Rows) -> str:
    """Where each replica's log begins and ends."""
    figure, axes = _plot("Logs of the replicas", height=0.8 + 0.4 * len(rows))
    for lane, row in enumerate(rows):
        axes.barh(
            lane,
            row["log_end"] - row["log_start"],
            left=row["log_start"],
            height=0.55,
            color=COLOURS[lane % len(COLOURS)],
        )
    _lanes(axes, _short([row["directory"] for row in rows]))
    axes.set_xlabel("offset")
    return _svg(figure, "where the logs begin and end: what is missing on the right is lag, on the left trimmed")


def elections(rows: Rows) -> str:
    """How long each election took, by epoch."""
    figure, axes = _plot("Election durations")
    axes.bar([str(row["epoch"]) for row in rows], [row["duration_ms"] for row in rows], color=COLOURS[4], width=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(20, integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("milliseconds")
    return _svg(figure, "from the first node that asked for votes to the leader")


def log_growth(rows: Rows) -> str:
    """Where each log ended, over time."""
    figure, axes = _plot("Log growth")
    _lines(axes, rows, "node" if "node" in rows[0] else "directory", "log_end", are_alike=True)
    axes.set_ylabel("log end offset")
    return _svg(figure, "how each log grew")


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


def _plot(title: str, height: float = 2.6) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH_IN, height + 0.5), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.grid(True, axis="x", color="#ddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _lanes(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def _lines(axes: Axes, rows: Rows, key: str, value: str, *, are_alike: bool = False) -> None:
    """A line for each node or directory, with a legend above the plot."""
    of: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        of.setdefault(row[key], []).append(row)
    keys = sorted(of)
    names = [f"node {node}" for node in keys] if key == "node" else _short(keys)
    for lane, (which, name) in enumerate(zip(keys, names, strict=True)):
        colour = _colour_of(which) if key == "node" else COLOURS[lane % len(COLOURS)]
        # Later lines are narrower, so that all remain visible when they coincide.
        width = 1.2 + 0.9 * (len(keys) - 1 - lane) * are_alike
        axes.plot(
            _times(row["at_s"] for row in of[which]), [row[value] for row in of[which]], label=name, color=colour,
            linewidth=width, drawstyle="steps-post",
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    columns = min(len(keys), MOST_COLUMNS)
    axes.legend(fontsize=8, frameon=False, ncols=columns, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2)
    _time_axis(axes, [row["at_s"] for row in rows])


def _short(paths: Sequence[str]) -> list[str]:
    """The paths without their common prefix."""
    split = [path.split("/") for path in paths]
    same = 0
    while len(paths) > 1 and all(len(parts) > same + 1 and parts[same] == split[0][same] for parts in split):
        same += 1
    return ["/".join(parts[same:])[-MOST_CHARACTERS:] for parts in split]


def _times(seconds: Iterable[float]) -> list[float]:
    """Values for an axis: seconds of a run, or calendar days as matplotlib counts them."""
    return [second / 86400 if second > _SECONDS_OF_A_CALENDAR else second for second in seconds]


def _time_axis(axes: Axes, seconds: Sequence[float]) -> None:
    if seconds and min(seconds) > _SECONDS_OF_A_CALENDAR:
        locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
        axes.set_xlabel("UTC")
    else:
        axes.set_xlabel("seconds since the run began")


def _colour_of(node: int | str) -> str:
    """Settings common to all plots."""
    return COLOURS[(int(node) - 1) % len(COLOURS)]


def _svg(figure: Figure, description: str) -> str:
    """The SVG without a file header, and with a text alternative."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Description": description})
    text = file.getvalue()
    return text[text.index("<svg") :]
