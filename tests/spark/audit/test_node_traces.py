"""The audit of what real nodes have written of themselves: nothing is found, unless it is put there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import pytest

from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceHeader

from .node_traces import Change, copy_traces, write_node_traces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft_trio.spark.audit import Audit

FIRST_LEADERS = "node-*.trace.1"
"""The file of the process that was killed, once its node was started again."""


def as_they_are(_header: TraceHeader, events: list[TraceEvent]) -> list[TraceEvent]:
    return events


def clocks_apart(header: TraceHeader, events: list[TraceEvent]) -> list[TraceEvent]:
    """Of each node by 20 seconds."""
    return [attrs.evolve(event, time_us=event.time_us + 20_000_000 * (header.node or 0)) for event in events]


def without_the_beginning(_header: TraceHeader, events: list[TraceEvent]) -> list[TraceEvent]:
    return events[len(events) // 3 :]


def without_the_end(_header: TraceHeader, events: list[TraceEvent]) -> list[TraceEvent]:
    return events[: len(events) // 2]


def events_lost(header: TraceHeader, events: list[TraceEvent]) -> list[TraceEvent]:
    """In the middle of each file, as where a disk was too slow."""
    first, last = len(events) // 3, len(events) // 2
    lost = attrs.evolve(events[last], kind="lost", cause="", details={"events": last - first})
    return [*events[:first], lost, *events[last + 1 :]]


SOUND: dict[str, tuple[Change, str]] = {
    "whole": (as_they_are, ""),
    "clocks apart": (clocks_apart, ""),
    "without the first process of a node": (as_they_are, FIRST_LEADERS),
    "without two nodes": (as_they_are, "node-[13].trace*"),
    "without the beginning": (without_the_beginning, ""),
    "without the end": (without_the_end, ""),
    "events lost": (events_lost, ""),
}
"""What may be left of the traces, and what nothing must be found in: by name, what of each file, and without which."""


MAY_LACK_A_LEADER = {"without the end", "without two nodes"}


def another_vote(_header: TraceHeader, events: list[TraceEvent]) -> list[TraceEvent]:
    return list(_after_each(events, "vote requested", {"candidate": "9-XYZ"}))


def another_leader(header: TraceHeader, events: list[TraceEvent]) -> list[TraceEvent]:
    assert header.node
    followers = (event for event in events if event.role == "Follower")
    claimed = [attrs.evolve(event, leader=event.node, role="Leader") for event in followers]
    return [*events, *claimed[-1:]]


def a_record_again(_header: TraceHeader, events: list[TraceEvent]) -> list[TraceEvent]:
    return list(_after_each(events, "append", {}))


def a_high_watermark_back(_header: TraceHeader, events: list[TraceEvent]) -> list[TraceEvent]:
    marks = [event for event in events if event.kind == "high_watermark"]
    return [*events, *(attrs.evolve(mark, high_watermark=0) for mark in marks[-1:])]


BROKEN: dict[str, Change] = {
    "trace_one_vote_per_epoch": another_vote,
    "trace_one_leader_per_epoch": another_leader,
    "trace_one_record_per_place": a_record_again,
    "trace_high_watermark_never_falls": a_high_watermark_back,
}
"""By the check that must find it, what is wrong in each file."""


def _after_each(events: list[TraceEvent], what: str, details: dict[str, str]) -> Iterator[TraceEvent]:
    for event in events:
        yield event
        if what in (event.kind, event.cause):
            yield attrs.evolve(event, details={**event.details, **details})


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """All of them in one audit."""
    from kraft_trio.spark.audit import audit

    folder = tmp_path_factory.mktemp("nodes")
    traces, copies = folder / "traces", folder / "copies"
    traces.mkdir()
    write_node_traces(folder, traces)
    assert len(list(traces.iterdir())) == 5
    for name, (change, without) in SOUND.items():
        copy_traces(traces, copies, name, change, without=without)
    for name, change in BROKEN.items():
        copy_traces(traces, copies, name, change)
    return audit(spark, traces=[str(copies / "*")], with_figures=True)


def told_of(audited: Audit, cluster: str, severity: str) -> list[str]:
    found = audited.violations
    return [f"{one.check}: {one}" for one in found if one.cluster == cluster and one.severity == severity]


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_found_in_what_is_left_of_the_traces(audited: Audit, name: str) -> None:
    assert told_of(audited, name, "error") == []
    passed = {result.check for result in audited.results if result.cluster == name and result.status == "passed"}
    # The nodes' clocks decide whether the first halves have a second leader, and the elections whether two nodes do.
    asked = set() if name in MAY_LACK_A_LEADER else {"trace_leader_completeness"}
    assert {"trace_one_leader_per_epoch", "trace_epochs_never_fall", *asked} <= passed


@pytest.mark.parametrize("check", BROKEN)
def test_what_is_wrong_is_found(audited: Audit, check: str) -> None:
    assert [line for line in told_of(audited, check, "error") if line.startswith(f"{check}: ")]


def test_what_is_missing_is_told(audited: Audit) -> None:
    assert told_of(audited, "whole", "warning") == []
    told = told_of(audited, "events lost", "warning")
    assert len(told) == 5
    assert all("has left out events" in line for line in told)
    told = told_of(audited, "without the beginning", "warning")
    assert len(told) == 5
    assert all("its first event is the" in line for line in told)


def test_what_the_traces_of_whole_nodes_show(audited: Audit) -> None:
    """All but what needs one clock, and clients."""
    seen = {result.check for result in audited.results if result.cluster == "whole" and result.status == "passed"}
    assert {
        "trace_members_campaign",
        "trace_role_transitions",
        "trace_overlapping_voter_sets",
        "trace_no_early_voter_change",
        "trace_leader_completeness",
        "trace_successive_high_watermarks",
        "trace_high_watermark_of_the_epoch",
        "trace_one_vote_per_epoch",
        "trace_restarted_leader_resigns",
    } <= seen


def test_the_report_has_a_plot_of_everything_that_traces_show(audited: Audit) -> None:
    from kraft_trio.spark.audit.report import report

    text = report(audited)
    for title in ("Leadership", "Voter sets", "Commit latency", "Election durations", "Follower lag", "Log growth"):
        assert f"<!-- {title} -->" in text, title
