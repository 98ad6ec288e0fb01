"""The picture of one commit: a row for each node, with its turns of the event loop, its fsyncs and its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

WIDTH: Final = 960
LEFT: Final = 90
RIGHT: Final = 20
TOP: Final = 40
ROW: Final = 110
BAR: Final = 14
MARGIN: Final = 0.04
"""What is shown before and after the commit, as a share of it."""
STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.turn{fill:#4878a8}.fsync{fill:#e08214}.message{stroke:#555;stroke-width:1}"
    ".append{fill:#d8e6d0}.grid{stroke:#ddd}"
)


Events: TypeAlias = Mapping[str, Sequence[Sequence[Any]]]
"""What the nodes noted, by the name of the node."""


@attrs.frozen
class Message:
    """Bytes on their way from one node to another."""

    source: str
    destination: str
    sent_ns: int
    received_ns: int


def median_append(events: Sequence[Sequence[Any]]) -> tuple[int, int]:
    """Begin and end of the append that took the median time, of the second half."""
    appends = [(event[1], event[2]) for event in events if event[0] == "append"]
    measured = sorted(appends[len(appends) // 2 :], key=lambda append: append[1] - append[0])
    return measured[(len(measured) - 1) // 2]


def messages(events: Events) -> list[Message]:
    """Match what one node sent with what another one received: the same bytes of the same connection."""
    received: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for node, noted in events.items():
        for event in noted:
            if event[0] == "received":
                _, at, here, there, total = event
                received.setdefault((there, here), []).append((total, at, node))
    found = []
    for node, noted in events.items():
        for event in noted:
            if event[0] == "sent":
                _, at, here, there, total = event
                arrived = next((other for other in received.get((here, there), ()) if other[0] >= total), None)
                if arrived is not None:
                    found.append(Message(node, arrived[2], at, max(at, arrived[1])))
    return found


def draw(events: Events, leader: str) -> str:
    """Return the picture as SVG.  The nodes are drawn in their order, and `leader` has the append."""
    began, ended = median_append(events[leader])
    margin = round((ended - began) * MARGIN)
    start, end = began - margin, ended + margin

    def x(at: int) -> float:
        return round(LEFT + (min(max(at, start), end) - start) / (end - start) * (WIDTH - LEFT - RIGHT), 1)

    y = {node: TOP + ROW * number for number, node in enumerate(events)}
    height = TOP + ROW * len(events) + 20
    bottom = height - 45
    shapes = [
        f'<rect class="append" x="{x(began)}" y="{TOP - 14}" width="{x(ended) - x(began):.1f}" '
        f'height="{bottom - TOP + 14}"/>',
        *_grid(began, ended, x, bottom),
    ]
    for message in messages(events):
        if start <= message.received_ns and message.sent_ns <= end:
            down = y[message.destination] > y[message.source]
            ends = (y[message.source] + (BAR if down else 0), y[message.destination] + (0 if down else BAR))
            shapes.append(
                f'<line class="message" x1="{x(message.sent_ns)}" y1="{ends[0]}" x2="{x(message.received_ns)}" '
                f'y2="{ends[1]}" marker-end="url(#arrow)"/>'
            )
    for node, noted in events.items():
        shapes.append(f'<text x="4" y="{y[node] + 12}">{node}</text>')
        for event in noted:
            if event[0] in ("turn", "fsync") and event[2] >= start and event[1] <= end:
                top = y[node] + (BAR + 3 if event[0] == "fsync" else 0)
                width = max(x(event[2]) - x(event[1]), 0.5)
                shapes.append(
                    f'<rect class="{event[0]}" x="{x(event[1])}" y="{top}" width="{width:.1f}" height="{BAR}"/>'
                )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="arrow" markerWidth="7" markerHeight="6" refX="7" refY="3" orient="auto">'
            '<path d="M0,0 L7,3 L0,6 z" fill="#555"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *shapes,
            *_legend(height),
            "</svg>\n",
        ]
    )


def _grid(began: int, ended: int, x: Any, bottom: int) -> list[str]:
    """Lines at round numbers of microseconds since the append began."""
    lines = []
    step = next(step for step in (50, 100, 200, 500, 1000, 5000, 100_000) if (ended - began) / 1000 / step <= 12)
    for microseconds in range(0, (ended - began) // 1000 + 1, step):
        at = x(began + microseconds * 1000)
        lines.append(f'<line class="grid" x1="{at}" y1="{TOP - 14}" x2="{at}" y2="{bottom}"/>')
        lines.append(f'<text x="{at}" y="{TOP - 20}" text-anchor="middle">{microseconds} µs</text>')
    return lines


def _legend(height: int) -> list[str]:
    shapes, left = [], LEFT
    for name, text in (("append", "the append"), ("turn", "a turn of the event loop"), ("fsync", "fsync, on a thread")):
        shapes.append(f'<rect class="{name}" x="{left}" y="{height - 30}" width="14" height="14"/>')
        shapes.append(f'<text x="{left + 20}" y="{height - 19}">{text}</text>')
        left += 190
    shapes.append(f'<line class="message" x1="{left}" y1="{height - 23}" x2="{left + 24}" y2="{height - 23}"/>')
    shapes.append(f'<text x="{left + 30}" y="{height - 19}">a message, from send to receive</text>')
    return shapes
