"""What plots have in common: colours, lanes, axes of time, and SVG that follows the colours of its page."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Final

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

COLOURS: Final = ("#4269d0", "#efb118", "#ff725c", "#3ca951", "#a463f2", "#6cc5b0", "#9c6b4e", "#97bbf5")
_LINE: Final = "#dddddd"
_WIDTH_IN: Final = 9.0
_SECONDS_OF_A_CALENDAR: Final = 1e8
"""Times above this count from 1970, times below it from the start of a run."""


def new_plot(title: str, height: float = 2.6) -> tuple[Figure, Axes]:
    """A figure of that height in inches, apart from the title, with one plot."""
    figure = Figure(figsize=(_WIDTH_IN, height + 0.5), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.grid(True, axis="x", color=_LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def lanes(axes: Axes, names: Sequence[str]) -> None:
    """Name the lanes of the vertical axis, from above."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def legend(axes: Axes, columns: int) -> None:
    """Put the legend above the plot, on the right."""
    axes.legend(fontsize=8, frameon=False, ncols=columns, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2)


def times(seconds: Iterable[float]) -> list[float]:
    """Values for an axis: seconds of a run, or calendar days as matplotlib counts them."""
    return [second / 86400 if second > _SECONDS_OF_A_CALENDAR else second for second in seconds]


def time_axis(axes: Axes, seconds: Sequence[float]) -> None:
    """Make the horizontal axis one of calendar times, or of seconds, as `times` has made the values."""
    if seconds and min(seconds) > _SECONDS_OF_A_CALENDAR:
        locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
        axes.set_xlabel("UTC")
    else:
        axes.set_xlabel("seconds since the run began")


def colour_of(node: int | str) -> str:
    """The colour of a node, the same in all plots."""
    return COLOURS[(int(node) - 1) % len(COLOURS)]


def svg(figure: Figure, description: str) -> str:
    """The SVG without a file header, and with a text alternative.

    Text and axes have the colours of the page: `color`, `fill` and the variable `--line`.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Description": description})
    text = file.getvalue().replace("#000000", "currentColor").replace(_LINE, f"var(--line, {_LINE})")
    return text[text.index("<svg") :]
