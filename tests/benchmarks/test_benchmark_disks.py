"""Commits over the time of an fsync: the tables, the aims and the picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks import disks, slow_disks
from benchmarks.context import Context
from benchmarks.disks import FLUSHES, Flush, Measured, Numbers, commits_section, panel_of, rate_section
from benchmarks.disks_picture import Axis, Panel, Point, bounds, draw
from benchmarks.machine import FsyncTimes
from benchmarks.measurement import LoadResult
from benchmarks.open_loop import KAFKA
from benchmarks.side_by_side import ETCD, OURS

SLOW_SOMETIMES = next(flush for flush in FLUSHES if flush.slow_per_mille)


def numbers(p50_ms: float, p99_ms: float, per_second: int) -> Numbers:
    return Numbers(LoadResult("c", per_second, 1.0, p50_ms, p50_ms, p50_ms, p99_ms, p99_ms, 50.0, per_second), 100.0)


def measured(flush: Flush, in_flight: int | None, ours: Numbers, **others: Numbers) -> Measured:
    return Measured(flush, FsyncTimes(flush.fsync_ms, 2 * flush.fsync_ms), in_flight, {OURS: ours, **others})


def beside_etcd(flush: Flush, p50: float = 0.9, p99: float = 0.9, rate: float = 1.8) -> list[Measured]:
    """Ours has these shares of etcd's."""
    return [
        measured(flush, 1, numbers(p50, p99, 100), **{ETCD: numbers(1.0, 1.0, 100)}),
        measured(flush, 64, numbers(1.0, 1.0, round(1000 * rate)), **{ETCD: numbers(1.0, 1.0, 1000)}),
    ]


def test_a_row_has_the_measured_fsync_and_the_ratio_is_ours_to_the_others() -> None:
    section = commits_section(beside_etcd(FLUSHES[1], p50=0.5), "How.")
    assert section.rows[2] == (
        *("fsync 0.5 ms, 1 in flight: ratio, ours : etcd", "0.50", "1.00"),
        *("0.50", "0.90", "1.00", "1.00"),
    )
    assert all(len(row) == len(section.columns) for row in section.rows)


@pytest.mark.parametrize(
    ("slower", "met"),
    [
        ({}, [True, True, True]),
        ({"p50": 0.95}, [False, True, True]),
        ({"p99": 0.95}, [True, False, True]),
        ({"rate": 1.7}, [True, True, False]),
    ],
)
def test_the_aims_are_for_each_fsync(slower: dict[str, float], met: list[bool]) -> None:
    section = commits_section([*beside_etcd(FLUSHES[0]), *beside_etcd(FLUSHES[1], **slower)], "How.")
    assert [aim.met for aim in section.aims] == met


def test_the_aims_are_for_fsyncs_that_are_fast_and_steady() -> None:
    slow = [flush for flush in FLUSHES if flush.fsync_ms > disks.AIMED_UP_TO_MS or flush is SLOW_SOMETIMES]
    assert len(slow) == 2
    ours = [one for flush in slow for one in beside_etcd(flush, p50=5.0, p99=5.0, rate=0.1)]
    assert all(aim.met for aim in commits_section([*beside_etcd(FLUSHES[0]), *ours], "How.").aims)
    assert not commits_section(ours, "How.").aims


def test_a_missing_peer_is_a_row_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks.etcd_cluster, "why_unavailable", lambda: "no etcd")
    monkeypatch.setattr(disks.kafka_raft, "why_unavailable", lambda: "no JDK")
    ours = numbers(1.0, 2.0, 100)
    section = commits_section([measured(FLUSHES[0], in_flight, ours) for in_flight in (1, 64)], "How.")
    assert section.rows[1][0] == "fsync 0.1 ms, 1 in flight: etcd NOT MEASURED, no etcd"
    assert not section.aims
    section = rate_section([measured(FLUSHES[0], None, ours)], "How.")
    assert section.rows[1][0] == "fsync 0.1 ms: Kafka's raft NOT MEASURED, no JDK"


async def test_without_slow_disks_the_section_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_disks, "why_unavailable", lambda: "only root may mount slow disks")
    context = Context(True, disks.PICTURE.parent, {}, (), lambda text: None)
    [section] = await disks.measure(context)
    assert section.failed
    assert "only root may mount slow disks" in section.rows[0][1]


def test_the_curves_are_of_one_in_flight_and_steady_disks() -> None:
    panel = panel_of("one", [*beside_etcd(FLUSHES[0]), *beside_etcd(SLOW_SOMETIMES)])
    assert panel == Panel("one", {OURS: [Point(0.1, 0.9, 0.9)], ETCD: [Point(0.1, 1.0, 1.0)]})
    panel = panel_of("rate", [measured(FLUSHES[0], None, numbers(1.0, 2.0, 200), **{KAFKA: numbers(3.0, 4.0, 200)})])
    assert panel.curves[KAFKA] == [Point(0.1, 3.0, 4.0)]


def test_an_axis_is_logarithmic() -> None:
    axis = Axis(0.1, 10.0, 0.0, 200.0)
    assert [axis(value) for value in (0.1, 1.0, 10.0)] == [0.0, 100.0, 200.0]
    assert list(axis.ticks()) == [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]


@pytest.mark.parametrize(
    ("values", "expected"), [([0.11, 21.0], (0.1, 50.0)), ([1.0], (1.0, 2.0)), ([0.2, 0.5], (0.2, 1.0))]
)
def test_an_axis_holds_all_values(values: list[float], expected: tuple[float, float]) -> None:
    assert bounds(values) == expected


def test_the_picture_has_a_curve_for_each_system_and_percentile() -> None:
    points = [Point(0.1, 1.0, 2.0), Point(1.0, 3.0, 5.0)]
    panels = [Panel("one in flight", {OURS: points, ETCD: points}), Panel("200/s", {OURS: points, KAFKA: points})]
    svg = ElementTree.fromstring(draw(panels))
    curves = [element for element in svg.iter() if element.tag.endswith("polyline")]
    assert [curve.get("class") for curve in curves] == ["p50", "p99"] * 4
    assert curves[0].get("stroke") == curves[4].get("stroke") != curves[6].get("stroke")
    texts = [element.text for element in svg.iter() if element.tag.endswith("text")]
    assert {"kraft-trio, p50", "Kafka's raft, p99", "commit, ms: 200/s"} <= set(texts)
