"""The pictures of a cluster's history as SVG: one function per plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from matplotlib.ticker import MaxNLocator

from kraft_trio.spark.audit.plots import leadership
from kraft_trio.spark.drawing import COLOURS, colour_of, lanes, legend, new_plot, svg, time_axis, times
from kraft_trio.spark.metadata_report.series import POINTS
from kraft_trio.spark.metadata_report.timeline import FENCED, GONE, NOBODY, SHUTTING_DOWN, UP, BrokerState, Timeline

MOST_LINES: Final = 12
MOST_HOT: Final = 15
MOST_LANES: Final = 60
MOST_ELECTIONS: Final = 500
"""The newest ones are drawn."""
_GOOD, _WARN, _BAD, _FAINT = "#3ca951", "#efb118", "#ff4d4f", "#9aa3b5"
_BADNESS: Final = (UP, SHUTTING_DOWN, GONE, FENCED)
_STATES: Final = {UP: _GOOD, SHUTTING_DOWN: _WARN, FENCED: _BAD, GONE: _FAINT}


def plots_of(timeline: Timeline) -> Iterator[str]:
    """The plots for which there is data."""
    if timeline.elections:
        yield leadership(timeline.elections[-MOST_ELECTIONS:], "Active controllers")
    if timeline.broker_states:
        yield brokers(timeline)
    if timeline.isr_sizes:
        yield leaders(timeline)
        yield isr_sizes(timeline)
        yield trouble(timeline)
    if timeline.topics_created or timeline.topics_deleted or timeline.topics.value:
        yield topics(timeline)
    if timeline.hot:
        yield hottest(timeline)


def brokers(timeline: Timeline) -> str:
    """A lane for each broker, with its states."""
    start, end = _span(timeline)
    ordered = sorted(timeline.broker_states, key=attrgetter("broker"))
    every = {id: list(states) for id, states in groupby(ordered, attrgetter("broker"))}
    shown = sorted(every, key=lambda id: -len(every[id]))[:MOST_LANES]
    by_broker = {id: every[id] for id in sorted(shown)}
    figure, axes = new_plot("Brokers", height=0.8 + 0.35 * len(by_broker))
    for lane, states in enumerate(by_broker.values()):
        for state, begin_us, end_us in spans_of(states, *_span_us(timeline)):
            began, ended = times([begin_us / 1e6, end_us / 1e6])
            height = 0.2 if state == GONE else 0.6
            axes.barh(lane, ended - began, left=began, height=height, color=_STATES[state])
    for state, colour in _STATES.items():
        if any(one.state == state for one in timeline.broker_states):
            axes.barh(0, 0, color=colour, label=state)
    legend(axes, len(_STATES))
    lanes(axes, [f"broker {id}" for id in by_broker])
    axes.set_xlim(*times([start, end]))
    time_axis(axes, [start, end])
    whose = "each broker was" if len(shown) == len(every) else f"the {MOST_LANES} brokers that changed most were"
    return svg(figure, f"when {whose} up, shutting down, fenced, or not registered")


def spans_of(states: Sequence[BrokerState], start_us: int, end_us: int) -> list[tuple[str, int, int]]:
    """The states of one broker with their begin and end, at most about twice POINTS of them.

    Where many follow each other too shortly to be seen, the worst of them stands for all.
    """
    shortest = (end_us - start_us) // POINTS
    spans: list[tuple[str, int, int]] = []
    ends = [*(one.since_us for one in states[1:]), end_us]
    for one, until in zip(states, ends, strict=True):
        begin, end = max(one.since_us, start_us), max(until, start_us)
        state = one.state
        if spans and len(states) > POINTS and spans[-1][2] - spans[-1][1] < shortest:
            before, begin, _ = spans.pop()
            state = max(before, state, key=_BADNESS.index)
        if spans and spans[-1][0] == state:
            begin = spans.pop()[1]
        spans.append((state, begin, end))
    return spans


def leaders(timeline: Timeline) -> str:
    """How many partitions each broker leads."""
    start, end = _span(timeline)
    figure, axes = new_plot("Partitions led by each broker")
    shown = sorted((id for id in timeline.leaders if id != NOBODY), key=lambda id: -timeline.leaders[id].value)
    for id in sorted(shown[:MOST_LINES]):
        at, values = timeline.leaders[id].points(*_span_us(timeline))
        axes.plot(times(at), values, label=f"broker {id}", color=colour_of(id), drawstyle="steps-post", linewidth=1.5)
    legend(axes, 6)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_ylabel("partitions")
    axes.set_xlim(*times([start, end]))
    time_axis(axes, [start, end])
    return svg(figure, f"how many partitions each broker led; the {MOST_LINES} with most of them now")


def isr_sizes(timeline: Timeline) -> str:
    """How many partitions have an ISR of each size, above each other."""
    start, end = _span(timeline)
    figure, axes = new_plot("Sizes of ISRs")
    sizes = sorted(timeline.isr_sizes)
    points = [timeline.isr_sizes[size].points(*_span_us(timeline)) for size in sizes]
    labels = [f"{size} in sync" for size in sizes]
    if len(sizes) > MOST_LINES:
        at, largest = points[0][0], [values for _, values in points[MOST_LINES - 1 :]]
        points[MOST_LINES - 1 :] = [(at, [sum(values) for values in zip(*largest, strict=True)])]
        labels[MOST_LINES - 1 :] = [f"{sizes[MOST_LINES - 1]} or more in sync"]
        del sizes[MOST_LINES:]
    colours = [_BAD, _WARN, *(COLOURS[at % len(COLOURS)] for at in (5, 0, 4, 6, 7, 2))]
    axes.stackplot(
        times(points[0][0]), [values for _, values in points], step="post", linewidth=0,
        labels=labels, colors=[colours[min(size, len(colours) - 1)] for size in sizes],
    )  # fmt: skip
    legend(axes, 6)
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_ylabel("partitions")
    axes.set_xlim(*times([start, end]))
    time_axis(axes, [start, end])
    return svg(figure, "how many partitions had an ISR of which size")


def trouble(timeline: Timeline) -> str:
    """How many partitions lack a leader or a replica; also what lasted shortly."""
    start, end = _span(timeline)
    figure, axes = new_plot("Partitions in trouble", height=1.8)
    for name, series, colour in (
        ("under-replicated", timeline.under_replicated, _WARN),
        ("without a leader", timeline.leaders[NOBODY], _BAD),
    ):
        at, values = series.points(*_span_us(timeline), is_highest=True)
        axes.fill_between(times(at), values, step="post", color=colour, alpha=0.25, linewidth=0)
        axes.plot(times(at), values, label=name, color=colour, drawstyle="steps-post", linewidth=1.4)
    legend(axes, 2)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylabel("most partitions")
    axes.set_xlim(*times([start, end]))
    time_axis(axes, [start, end])
    return svg(figure, "the most partitions that were under-replicated or without a leader in each period")


def topics(timeline: Timeline) -> str:
    """How many topics there were, with their births and deaths."""
    start, end = _span(timeline)
    figure, axes = new_plot("Topics", height=1.8)
    at, values = timeline.topics.points(*_span_us(timeline))
    axes.plot(times(at), values, color=COLOURS[0], drawstyle="steps-post", linewidth=1.6, label="topics")
    for operation, colour in (("create", _GOOD), ("delete", _BAD)):
        events = [max(one.time_us / 1e6, start) for one in timeline.topic_events if one.operation == operation]
        if events:
            axes.plot(times(events), [0] * len(events), "|", color=colour, markersize=12, label=f"{operation}d")
    legend(axes, 3)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlim(*times([start, end]))
    time_axis(axes, [start, end])
    return svg(figure, "how many topics there were; strokes are the newest that were created and deleted")


def hottest(timeline: Timeline) -> str:
    """The partitions that changed most, by what changed."""
    keys = [key for key, _ in timeline.hot.most_common(MOST_HOT)]
    figure, axes = new_plot("Partitions that changed most", height=0.8 + 0.26 * len(keys))
    left = [0] * len(keys)
    for what, colour in (("leader", COLOURS[2]), ("isr", COLOURS[1]), ("other", COLOURS[0])):
        counts = [timeline.hot_by_field[what][key] for key in keys]
        label = {"leader": "leader", "isr": "ISR alone", "other": "something else"}[what]
        axes.barh(range(len(keys)), counts, left=left, color=colour, height=0.65, label=label)
        left = [before + count for before, count in zip(left, counts, strict=True)]
    legend(axes, 3)
    lanes(axes, [key if len(key) <= 40 else f"…{key[-39:]}" for key in keys])
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlabel("changes")
    return svg(figure, "the partitions with most changes")


def _span_us(timeline: Timeline) -> tuple[int, int]:
    return timeline.start_us or 0, max(timeline.end_us, timeline.start_us or 0)


def _span(timeline: Timeline) -> tuple[float, float]:
    start, end = _span_us(timeline)
    return start / 1e6, max(end / 1e6, start / 1e6 + 1)
