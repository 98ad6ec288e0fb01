"""What a report shows of a cluster's history, gathered from its changes in one pass."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final

import attrs

from kraft_trio.metadata.history import Problem
from kraft_trio.spark.metadata.changes import ChangeRow, replica_changes
from kraft_trio.spark.metadata.replaying import Replaying, Unreadable
from kraft_trio.spark.metadata_report.series import Series

UP: Final = "up"
FENCED: Final = "fenced"
SHUTTING_DOWN: Final = "shutting down"
GONE: Final = "not registered"
NOBODY: Final = -1
"""The leader of a partition that has none."""
MOST_TOPIC_EVENTS: Final = 200
LATEST_US: Final = 250_000_000_000_000_000
"""A time in the year 9892, which stands for later ones: plots end with the year 9999."""


@attrs.frozen
class BrokerState:
    """From when on a broker was in a state."""

    broker: int
    since_us: int
    state: str


@attrs.frozen
class TopicEvent:
    """A topic was created or deleted."""

    time_us: int
    offset: int | None
    operation: str
    name: str
    topic_id: str
    controller: int | None


@attrs.define
class Timeline:
    """Of one replica's metadata, as far as its log and snapshots go."""

    replaying: Replaying
    leaders: dict[int, Series] = attrs.field(factory=lambda: defaultdict(Series))
    """How many partitions each broker leads; NOBODY for those without a leader."""
    isr_sizes: dict[int, Series] = attrs.field(factory=lambda: defaultdict(Series))
    """How many partitions have an ISR of that size."""
    under_replicated: Series = attrs.field(factory=Series)
    partitions: Series = attrs.field(factory=Series)
    topics: Series = attrs.field(factory=Series)
    broker_states: list[BrokerState] = attrs.field(factory=list)
    topic_events: list[TopicEvent] = attrs.field(factory=list)
    """The newest MOST_TOPIC_EVENTS."""
    topics_created: int = 0
    topics_deleted: int = 0
    hot: Counter[str] = attrs.field(factory=Counter)
    """Changes by partition."""
    hot_by_field: dict[str, Counter[str]] = attrs.field(factory=lambda: defaultdict(Counter))
    """Of each partition, how often its leader, its ISR and something else changed, with one of them a change."""
    entities: Counter[str] = attrs.field(factory=Counter)
    """Changes by kind of thing."""
    changes: int = 0
    problems: list[str] = attrs.field(factory=list)
    start_us: int | None = None
    end_us: int = 0
    _now_us: int = 0

    @property
    def elections(self) -> list[dict[str, Any]]:
        """A row for each epoch: node, epoch, and when its leadership began and ended, in seconds since 1970."""
        elections = self.replaying.history.elections
        told = [(epoch, one.timestamp_us) for epoch, one in sorted(elections.items())]
        known = [(epoch, min(time, LATEST_US)) for epoch, time in told if time is not None]
        ends = [time for _, time in known[1:]] + [max(self.end_us, known[-1][1])] if known else []
        return [
            {
                "node": elections[epoch].leader_id,
                "epoch": epoch,
                "began_s": time / 1e6,
                "ended_s": max(time, end) / 1e6,
            }
            for (epoch, time), end in zip(known, ends, strict=True)
        ]

    def gather(self) -> Timeline:
        """Read everything.  Blocks.  May be called once."""
        for step in replica_changes(self.replaying, 0):
            if isinstance(step, Problem | Unreadable):
                self.problems.append(step.reason)
            else:
                self._add(step)
        elections = self.replaying.history.elections.values()
        elected = [one.timestamp_us for one in elections if one.timestamp_us is not None]
        self.start_us = min(min([*elected, *([] if self.start_us is None else [self.start_us])], default=0), LATEST_US)
        self.end_us = min(max([self._now_us, self.replaying.history.newest.timestamp_us or 0, *elected]), LATEST_US)
        return self

    def _add(self, row: ChangeRow) -> None:
        is_old = row.origin.offset is None
        # Controllers have clocks of their own, so a time may fall; the order is the log's.
        self._now_us = max(self._now_us, 0 if is_old else min(row.origin.timestamp_us or 0, LATEST_US))
        if not is_old:
            self.changes += 1
            self.entities[row.entity] += 1
            if self.start_us is None and self._now_us:
                self.start_us = self._now_us
        if row.entity == "partitions":
            self._partition(row, is_old)
        elif row.entity == "brokers":
            self._broker(row)
        elif row.entity == "topics":
            self._topic(row, is_old)

    def _partition(self, row: ChangeRow, is_old: bool) -> None:
        for values, delta in ((row.before, -1), (row.after, 1)):
            if values is None:
                continue
            self.partitions.add(self._now_us, delta)
            self.leaders[values["leader"]].add(self._now_us, delta)
            self.isr_sizes[len(values["isr"])].add(self._now_us, delta)
            if len(values["isr"]) < len(values["replicas"]):
                self.under_replicated.add(self._now_us, delta)
        if row.operation == "update" and not is_old:
            self.hot[row.key] += 1
            what = "leader" if "leader" in row.changed else "isr" if "isr" in row.changed else "other"
            self.hot_by_field[what][row.key] += 1

    def _broker(self, row: ChangeRow) -> None:
        state = _state(row.after)
        if row.before is None or _state(row.before) != state:
            self.broker_states.append(BrokerState((row.after or row.before or {})["broker_id"], self._now_us, state))

    def _topic(self, row: ChangeRow, is_old: bool) -> None:
        self.topics.add(self._now_us, (row.after is not None) - (row.before is not None))
        if is_old:
            return
        self.topics_created += row.before is None
        self.topics_deleted += row.after is None
        topic = (row.after or row.before or {})["topic_id"]
        event = TopicEvent(self._now_us, row.origin.offset, row.operation, row.key, topic, row.controller)
        self.topic_events.append(event)
        if len(self.topic_events) > 2 * MOST_TOPIC_EVENTS:
            del self.topic_events[:-MOST_TOPIC_EVENTS]


def _state(values: Mapping[str, Any] | None) -> str:
    if values is None:
        return GONE
    if values["fenced"]:
        return FENCED
    return SHUTTING_DOWN if values["in_controlled_shutdown"] else UP
