"""What the slowest commits wait for: the critical path, its causes, and what the load program notes."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
import trio

from benchmarks import tail
from benchmarks.loads import timeline
from benchmarks.tail_causes import (
    FOR_A_PROCESSOR,
    MESSAGE,
    NOT_TRACED,
    Commit,
    beside_the_slowest,
    causes_of_the_slowest,
    commits_of,
)

LEADER, NEAR, FAR = 100, 200, 300
"""Ports; the far follower answers too late to matter."""
LOG = "00000000000000000000.log"
APPEND = ("append", 1_000, 10_000)


def fsync(began: int, ended: int, name: str = LOG, *, grew: bool = False, in_loop: bool = False) -> tuple[Any, ...]:
    return ("fsync", began, ended, name, grew, in_loop)


def leader(*events: tuple[Any, ...], append: tuple[Any, ...] = APPEND) -> list[tuple[Any, ...]]:
    return [
        append,
        ("sent", 2_000, LEADER, NEAR, 10),
        ("sent", 2_100, LEADER, FAR, 10),
        fsync(2_200, 4_000),
        ("received", 9_000, LEADER, NEAR, 7),
        ("received", 20_000, LEADER, FAR, 7),
        *events,
    ]


def follower(port: int, late: int, *events: tuple[Any, ...], **of_fsync: bool) -> list[tuple[Any, ...]]:
    return [
        ("received", 3_000 + late, port, LEADER, 10),
        fsync(4_000 + late, 7_000 + late, **of_fsync),
        ("sent", 8_000 + late, port, LEADER, 7),
        *events,
    ]


def commit_of(leads: list[tuple[Any, ...]], near: list[tuple[Any, ...]] | None = None) -> Commit:
    events = {"near": near or follower(NEAR, 0), "leader": leads, "far": follower(FAR, 10_000)}
    [commit] = commits_of(events, "leader", 0)
    assert sum(commit.by_cause.values()) == pytest.approx(commit.taken)
    return commit


def test_the_path_goes_through_the_second_copy() -> None:
    assert commit_of(leader()).by_cause == {
        "leader: until its event loop runs": 1_000 + 1_000,
        MESSAGE: 1_000 + 1_000,
        "follower: until its event loop runs": 1_000 + 1_000,
        "follower: fsync": 3_000,
    }


def test_the_second_copy_may_be_the_leaders() -> None:
    late = [event for event in leader(fsync(2_200, 9_500)) if event != fsync(2_200, 4_000)]
    assert commit_of(late).by_cause == {
        "leader: until its event loop runs": 1_200 + 500,
        "leader: fsync": 7_300,
    }


def test_a_commit_whose_events_are_missing_is_not_traced() -> None:
    assert commit_of([APPEND]).by_cause == {NOT_TRACED: 9_000}


def test_a_turn_runs_waits_for_a_processor_or_is_blocked() -> None:
    # 1,000 ns before the send: half on the processor, 300 ns ready to run, 200 ns neither.
    causes = commit_of(leader(("turn", 1_000, 2_000, 500, 300, 0))).by_cause
    assert causes["leader: event loop"] == pytest.approx(500)
    assert causes[f"leader: event loop, {FOR_A_PROCESSOR}"] == pytest.approx(300)
    assert causes["leader: event loop, blocked"] == pytest.approx(200)
    assert causes["leader: until its event loop runs"] == 1_000


def test_a_fsync_within_a_turn_is_no_time_off_the_processor() -> None:
    near = follower(NEAR, 0, ("turn", 3_000, 8_000, 2_000, 0, 0), in_loop=True)
    causes = commit_of(leader(), near).by_cause
    assert causes["follower: fsync"] == 3_000
    assert causes["follower: event loop"] == pytest.approx(2_000)
    assert causes["follower: event loop, blocked"] == pytest.approx(0)


def test_the_wait_for_a_processor_ends_with_the_begin_of_a_turn() -> None:
    causes = commit_of(leader(("turn", 9_900, 10_000, 100, 0, 700))).by_cause
    assert causes[f"leader: {FOR_A_PROCESSOR}"] == 700
    assert causes["leader: event loop"] == pytest.approx(100)


def test_collections_spans_and_other_fsyncs_come_first() -> None:
    near = follower(
        *(NEAR, 0, ("turn", 3_000, 4_000, 1_000, 0, 0), ("gc", 3_100, 3_200, 1), ("span", 3_300, 3_500, "metrics")),
        *(("span", 3_000, 9_000, "metrics file"), fsync(7_100, 7_600, "recovery-point")),
        grew=True,
    )
    commit = commit_of(leader(("span", 1_500, 1_600, "write")), near)
    assert commit.by_cause["follower: garbage collection, generation 1"] == 100
    assert commit.by_cause["follower: metrics"] == 200
    assert commit.by_cause["follower: event loop"] == pytest.approx(700)
    assert commit.by_cause["follower: fsync of recovery-point"] == 500
    assert commit.by_cause["follower: fsync of a log that grew"] == 3_000
    assert commit.by_cause["leader: write"] == 100
    assert commit.beside == {
        "follower: garbage collection, generation 1",
        "follower: metrics",
        "follower: metrics file",
        "follower: fsync of recovery-point",
        "follower: fsync of a log that grew",
    }


def commits(slow: int) -> list[Commit]:
    """99 of 1 ms, with one that takes longer by a fsync."""
    usual = [Commit(0, 1_000_000, {"loop": 1_000_000.0}, frozenset()) for _ in range(99)]
    return [*usual, Commit(0, slow, {"loop": 1_000_000.0, "fsync": slow - 1_000_000.0}, frozenset({"roll"}))]


def test_the_excess_is_what_the_slowest_took_more_than_those_around_the_median() -> None:
    fsyncs, loop = causes_of_the_slowest(commits(5_000_000), 0.01)
    assert (fsyncs.what, fsyncs.usual_ms, fsyncs.rest_ms, fsyncs.slowest_ms, fsyncs.share) == ("fsync", 0, 0, 4, 1)
    assert (loop.usual_ms, loop.slowest_ms, loop.share) == (1, 1, 0)
    assert beside_the_slowest(commits(5_000_000), 0.01) == [("roll", 1.0, 0.0)]


def test_the_tables_add_up() -> None:
    causes, beside = tail.sections_of(commits(5_000_000), "How.")
    assert causes.rows[-1] == ("together", "1.000", "1.000", "5.000", "100%")
    assert beside.rows == (("roll", "100.0%", "0.00%"),)
    assert "p50 1.00 ms" in causes.notes[0]


@pytest.mark.linux
async def test_the_load_program_notes_what_a_node_does(tmp_path: Path) -> None:
    recorder = timeline.Recorder()
    recorder.after_io_wait(0.0)
    gc.callbacks.append(recorder._collects)
    try:
        gc.collect(1)
    finally:
        gc.callbacks.remove(recorder._collects)
    with (tmp_path / LOG).open("wb", buffering=0) as file:
        sync = recorder._timing(os.fsync)
        for data in (b"x", b"y"):
            file.write(data)
            sync(file.fileno())
    assert recorder._span("metrics", lambda: 5)() == 5

    async def take() -> int:
        await trio.lowlevel.checkpoint()
        return 6

    assert await recorder._span("snapshot", take)() == 6
    recorder.before_io_wait(0.0)
    events = {kind: [event[1:] for event in recorder.events() if event[0] == kind] for kind in timeline.KINDS}
    assert [event[2] for event in events["gc"] if event[2] == 1] == [1]
    assert [event[2:] for event in events["fsync"]] == [[LOG, 0, 1], [LOG, 1, 1]]
    assert [event[2] for event in events["span"]] == ["metrics", "snapshot"]
    [[began, ended, processor_ns, waited, _]] = events["turn"]
    assert 0 < processor_ns <= ended - began + 100_000
    assert waited >= 0
