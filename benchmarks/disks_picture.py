"""The picture of latencies over the time of an fsync: a panel for each load, with a curve for each system."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

import attrs

PANEL: Final = 400
"""The width and the height of the part of a panel that has curves."""
LEFT: Final = 60
TOP: Final = 40
BETWEEN: Final = 70
BELOW: Final = 100
COLOURS: Final = ("#4878a8", "#e08214", "#5a9e5a", "#8b5fa8")
STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.grid{stroke:#ddd}.fsync{stroke:#999;stroke-dasharray:1 3}"
    ".p50,.p99{fill:none;stroke-width:2}.p99{stroke-dasharray:6 4}.frame{fill:none;stroke:#999}"
)


@attrs.frozen
class Point:
    """All in milliseconds."""

    fsync: float
    p50: float
    p99: float


@attrs.frozen
class Panel:
    """Curves by the name of the system."""

    title: str
    curves: Mapping[str, Sequence[Point]]


@attrs.frozen
class Axis:
    """A logarithmic axis: from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> Iterator[float]:
        """Return 1, 2 and 5 times the powers of ten."""
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for digit in (1, 2, 5):
                tick = float(f"{digit}e{power}")
                if self.low <= tick <= self.high:
                    yield tick


def bounds(values: Iterable[float]) -> tuple[float, float]:
    """The nearest of 1, 2 and 5 times a power of ten around the values."""
    ordered = sorted(values)
    around = [float(f"{digit}e{power}") for power in range(-4, 6) for digit in (1, 2, 5)]
    return max(tick for tick in around if tick <= ordered[0]), min(tick for tick in around if tick > ordered[-1])


def draw(panels: Sequence[Panel]) -> str:
    """Return the picture as SVG.  All panels have the same axes, and the same colour for a system."""
    points = [point for panel in panels for curve in panel.curves.values() for point in curve]
    across, up = (
        bounds(point.fsync for point in points),
        bounds(ms for point in points for ms in (point.p50, point.p99)),
    )
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    shapes: list[str] = []
    for number, panel in enumerate(panels):
        left = LEFT + number * (PANEL + BETWEEN)
        x, y = Axis(*across, left, left + PANEL), Axis(*up, TOP + PANEL, TOP)
        shapes += [*_frame(panel.title, x, y), *_curves(panel, x, y, colours)]
    width, height = LEFT + len(panels) * (PANEL + BETWEEN) - BETWEEN + 20, TOP + PANEL + BELOW
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *shapes,
            *_legend(colours, TOP + PANEL + 65),
            "</svg>\n",
        ]
    )


def _frame(title: str, x: Axis, y: Axis) -> Iterator[str]:
    bottom, middle = y.start, (x.start + x.end) / 2
    for tick in x.ticks():
        yield f'<line class="grid" x1="{x(tick)}" y1="{y.end}" x2="{x(tick)}" y2="{bottom}"/>'
        yield f'<text x="{x(tick)}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>'
    for tick in y.ticks():
        yield f'<line class="grid" x1="{x.start}" y1="{y(tick)}" x2="{x.end}" y2="{y(tick)}"/>'
        yield f'<text x="{x.start - 6}" y="{y(tick) + 4}" text-anchor="end">{tick:g}</text>'
    yield f'<rect class="frame" x="{x.start}" y="{y.end}" width="{PANEL}" height="{PANEL}"/>'
    yield f'<text x="{x.start}" y="{y.end - 10}">commit, ms: {escape(title)}</text>'
    yield f'<text x="{middle}" y="{bottom + 36}" text-anchor="middle">append 1 KiB and fdatasync, p50, ms</text>'


def _curves(panel: Panel, x: Axis, y: Axis, colours: Mapping[str, str]) -> Iterator[str]:
    low, high = max(x.low, y.low), min(x.high, y.high)
    if low < high:
        yield f'<line class="fsync" x1="{x(low)}" y1="{y(low)}" x2="{x(high)}" y2="{y(high)}"/>'
    of: dict[str, Callable[[Point], float]] = {"p50": lambda point: point.p50, "p99": lambda point: point.p99}
    for name, curve in panel.curves.items():
        for kind, value in of.items():
            ends = " ".join(f"{x(point.fsync)},{y(value(point))}" for point in sorted(curve, key=lambda p: p.fsync))
            yield f'<polyline class="{kind}" stroke="{colours[name]}" points="{ends}"/>'
        for point in curve:
            yield f'<circle cx="{x(point.fsync)}" cy="{y(point.p50)}" r="3" fill="{colours[name]}"/>'


def _legend(colours: Mapping[str, str], top: int) -> Iterator[str]:
    left = LEFT
    for name, colour in colours.items():
        for kind in ("p50", "p99"):
            yield f'<line class="{kind}" stroke="{colour}" x1="{left}" y1="{top}" x2="{left + 30}" y2="{top}"/>'
            yield f'<text x="{left + 36}" y="{top + 4}">{escape(name)}, {kind}</text>'
            left += 140
    yield f'<line class="fsync" x1="{LEFT}" y1="{top + 20}" x2="{LEFT + 30}" y2="{top + 20}"/>'
    yield f'<text x="{LEFT + 36}" y="{top + 24}">one such fdatasync</text>'
