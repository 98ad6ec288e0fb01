"""`kraft metadata report`: what it tells of a history that is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraft_trio.cli import run
from tests.spark.directories import make_node
from tests.support.metadata_histories import RandomHistory, framed
from tests.support.metadata_logs import START_MS, log_of, take_snapshot

if TYPE_CHECKING:
    from kraft_trio.spark.metadata_report.timeline import Timeline

SECOND_US = 1_000_000


def timeline(directory: Path) -> Timeline:
    from kraft_trio.spark.directories.replicas import find_replicas
    from kraft_trio.spark.metadata_report.report import timeline_of

    [replica] = find_replicas([str(directory)], allow_mixed_clusters=False)
    return timeline_of(replica)


def written(tmp_path: Path, *directories: Path, code: int = 0) -> str:
    out = tmp_path / "report.html"
    assert run(["metadata", "report", *map(str, directories), "--out", str(out)]) == code
    return out.read_text()


def test_what_the_report_counts_is_what_exists(tmp_path: Path) -> None:
    """At the end of random histories, by the state that a query gives."""
    from kraft_trio.spark.metadata_report.timeline import FENCED, GONE, NOBODY, SHUTTING_DOWN, UP

    for seed in range(3):
        values = RandomHistory(seed).framed(500)
        made = timeline(make_node(tmp_path / str(seed), 1, (0, log_of(values))))
        image = made.replaying.history.image
        partitions = list(image.things("partitions"))
        assert made.topics.value == len(list(image.things("topics")))
        assert made.partitions.value == len(partitions)
        assert made.topics.value == made.topics_created - made.topics_deleted
        for leader in {one.leader for one in partitions} | {NOBODY}:
            assert made.leaders[leader].value == sum(one.leader == leader for one in partitions)
        assert {size: series.value for size, series in made.isr_sizes.items() if series.value} == {
            size: sum(len(one.isr) == size for one in partitions) for size in {len(one.isr) for one in partitions}
        }
        assert made.under_replicated.value == sum(len(one.isr) < len(one.replicas) for one in partitions)
        newest = {one.broker: one.state for one in made.broker_states}
        brokers = {
            one.broker_id: FENCED if one.fenced else SHUTTING_DOWN if one.in_controlled_shutdown else UP
            for one in image.things("brokers")
        }
        assert {id: state for id, state in newest.items() if state != GONE} == brokers
        assert (made.start_us, made.end_us) == (START_MS * 1000, (START_MS + len(values)) * 1000)


def test_a_history_that_begins_with_a_snapshot(tmp_path: Path) -> None:
    from tests.spark.audit.metadata_damages import HISTORY, SNAPSHOT_END, image_of

    values = [framed(one) for one in HISTORY]
    whole = make_node(tmp_path / "whole", 1, (0, log_of(values)))
    trimmed = make_node(tmp_path / "trimmed", 1, (SNAPSHOT_END, log_of(values[SNAPSHOT_END - 1 :], SNAPSHOT_END)))
    take_snapshot(trimmed, SNAPSHOT_END, map(framed, image_of(HISTORY[: SNAPSHOT_END - 1])))
    first, second = timeline(whole), timeline(trimmed)
    assert second.topics.value == first.topics.value == 3
    assert {leader: one.value for leader, one in second.leaders.items() if one.value} == {1: 2, -1: 1}
    assert [(one.name, one.operation) for one in second.topic_events] == [
        ("payments", "create"),
        ("clicks", "delete"),
        ("clicks", "create"),
    ]
    assert second.changes < first.changes, "what the snapshot has is no change"


def test_the_report_is_one_file_with_all_plots(tmp_path: Path) -> None:
    from tests.spark.audit.metadata_damages import HISTORY

    node = make_node(tmp_path, 1, (0, log_of([framed(one) for one in HISTORY])))
    text = written(tmp_path, node)
    for title in (
        "Active controllers", "Brokers", "Partitions led by each broker", "Sizes of ISRs", "Partitions in trouble",
        "Topics", "Partitions that changed most",
    ):  # fmt: skip
        assert f"<!-- {title} -->" in text, f"no plot {title}"
    assert "2 of 2" in text
    assert "prefers-color-scheme: dark" in text
    for other in ("<script", "<link", "src=", "#000000"):
        assert other not in text


def test_a_broker_that_flaps_is_drawn_in_few_bars() -> None:
    from kraft_trio.spark.metadata_report.plots import spans_of
    from kraft_trio.spark.metadata_report.series import POINTS
    from kraft_trio.spark.metadata_report.timeline import FENCED, GONE, UP, BrokerState

    flaps = [BrokerState(1, at, UP if at % 2 else FENCED) for at in range(10_000)]
    rest = [BrokerState(1, 10_000, UP), BrokerState(1, 20_000, GONE)]
    spans = spans_of([*flaps, *rest], 0, 30_000)
    assert len(spans) < 2 * POINTS
    assert (spans[0][1], spans[-1]) == (0, (GONE, 20_000, 30_000))
    assert [begin for _, begin, _ in spans[1:]] == [end for _, _, end in spans[:-1]]
    assert {state for state, begin, _ in spans if begin < 9_000} == {FENCED}, "the worst state is seen"
    assert spans_of(rest, 5_000, 30_000) == [(UP, 10_000, 20_000), (GONE, 20_000, 30_000)]


def test_many_brokers_and_sizes_of_isrs_have_few_lines(tmp_path: Path) -> None:
    """The sum over the sizes stays the number of partitions."""
    import attrs

    from tests.metadata.test_history import TOPIC, broker, partition

    brokers = [attrs.evolve(broker(), broker_id=id) for id in range(100)]
    partitions = [partition(size, replicas=range(1, 2 + size)) for size in range(40)]
    node = make_node(tmp_path, 1, (0, log_of([framed(one) for one in (TOPIC, *brokers, *partitions)])))
    text = written(tmp_path, node)
    assert "the 60 brokers that changed most were up" in text
    assert text.count("<!-- broker ") == 60 + 1, "lanes, and the line of the one leader"
    assert "<!-- 12 or more in sync -->" in text
    assert "<!-- 13 in sync -->" not in text


def test_an_empty_log_and_a_log_of_something_else(tmp_path: Path) -> None:
    empty = make_node(tmp_path / "empty", 1, (0, b""))
    assert "the log has no changes" in written(tmp_path, empty)
    other = make_node(tmp_path / "other", 1, (0, log_of([b"words", b"<b>"])))
    text = written(tmp_path, other, code=1)
    assert "What could not be read" in text


def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = make_node(tmp_path, 1, (0, log_of([])))
    assert run(["metadata", "report", str(node), "--out", str(tmp_path / "no" / "where.html")]) == 1
    assert "expected a file that can be written" in capsys.readouterr().err


def test_a_line_shows_what_was_short(tmp_path: Path) -> None:
    from kraft_trio.spark.metadata_report.series import POINTS, Series

    series = Series()
    series.add(0, 5)
    for second in range(1, 100_000, 10):
        series.add(second * SECOND_US, 1)
        series.add(second * SECOND_US + 1, -1)
    at, last = series.points(0, 100_000 * SECOND_US)
    _, highest = series.points(0, 100_000 * SECOND_US, is_highest=True)
    assert len(at) == len(last) == len(highest) == POINTS + 1
    assert (set(last), set(highest)) == ({5}, {6})
    assert series.points(7, 7) == ([7e-06, 7e-06], [5, 5])
    assert Series().points(0, 10) == (at_of(10), [0] * (POINTS + 1))


def at_of(end_us: int) -> list[float]:
    from kraft_trio.spark.metadata_report.series import POINTS

    step = end_us / POINTS
    return [pytest.approx(step * at / 1e6) for at in range(POINTS + 1)]
