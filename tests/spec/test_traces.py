"""Traces of the simulator are behaviours of the specification, and false ones are refused at the right event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.tracing.files import TraceHeader, TraceWriter
from scripts.model_checking.tlc import TlcMissingError, jar
from scripts.trace_checking import __main__ as command
from scripts.trace_checking.checking import check
from scripts.trace_checking.killed import completed
from scripts.trace_checking.merging import merged
from scripts.trace_checking.steps import steps_of
from tests.spec.traced import changed, moved, planned

STATIC = PlanOptions(voters=3, observers=0, duration_us=8_000_000, profiles=("network", "process"))
IN_GATE = (1, 2, 4, 7, 20)
"""Their voters are static; those of the next five are in the log."""
IN_GATE_TOO = (3, 17, 25, 26, 27)
KILLED_IN_GATE = 2
NIGHTLY_SEEDS = 200
KILLED_NIGHTLY = [seed for seed in range(1, 25) if seed not in (15, 22)]
"""In the other two, a node is killed while it campaigns, or after it has resigned."""
UNWRITTEN_US = 200_000
"""A node writes its trace so often."""


@pytest.fixture(scope="session")
def tlc_jar() -> Path:
    try:
        return jar(fetch=False)
    except TlcMissingError as missing:
        pytest.skip(str(missing))


def at(events: Sequence[TraceEvent], is_it: Callable[[TraceEvent], bool], start: int = 0) -> int:
    return next(number for number, event in enumerate(events) if number >= start and is_it(event))


def committed_before_it_is_synced(events: Sequence[TraceEvent]) -> tuple[list[TraceEvent], TraceEvent]:
    """The leader commits its first record before any follower has synced it."""
    commit = at(events, lambda event: event.kind == "high_watermark" and event.role == "Leader")
    sync = at(events, lambda event: event.kind == "sync" and event.role == "Follower")
    assert sync < commit
    return moved(events, commit, sync), events[commit]


def fetched_before_it_is_appended(events: Sequence[TraceEvent]) -> tuple[list[TraceEvent], TraceEvent]:
    """A follower has a record that its leader has not appended yet."""
    append = at(events, lambda event: event.kind == "append" and event.role == "Leader" and event.log_end == 1)
    fetch = at(events, lambda event: event.kind == "append" and event.role == "Follower")
    return moved(events, fetch, append), events[fetch]


def voted_twice(events: Sequence[TraceEvent]) -> tuple[list[TraceEvent], TraceEvent]:
    """A voter grants its vote to a second replica in the same epoch."""
    vote = at(events, lambda event: event.details.get("pre_vote") is False and "reason" in event.details)
    keys = {event.node: str(event.details["directory_id"]) for event in events if event.kind == "start"}
    voter, candidate = events[vote].node, str(events[vote].details["candidate"])
    other = next(key for node, key in keys.items() if node != voter and key != candidate)
    again = changed(events, vote, details={"candidate": other})[vote]
    return [*events[: vote + 1], again, *events[vote + 1 :]], again


def lost_a_synced_record(events: Sequence[TraceEvent]) -> tuple[list[TraceEvent], TraceEvent]:
    """A node comes back without the last record that it has synced."""
    restart = at(
        events, lambda event: event.kind == "role" and event.details["was"] is None and (event.log_end or 0) > 0
    )
    end = events[restart].log_end
    assert end is not None
    false = changed(events, restart, log_end=end - 1, synced_end=end - 1)
    return false, false[restart]


def apart(events: Sequence[TraceEvent]) -> list[list[TraceEvent]]:
    """The events of each node, whose clock is wrong by some seconds."""
    return [
        [attrs.evolve(event, time_us=event.time_us + shift_us) for event in events if event.node == node]
        for node, shift_us in ((1, 14_000_000), (2, 0), (3, 7_000_000))
    ]


def killed(events: Sequence[TraceEvent]) -> list[list[TraceEvent]]:
    """The events of each node, without the last ones of each process that was killed."""
    found = []
    for node in (1, 2, 3):
        own: list[TraceEvent] = []
        runs = False
        for event in events:
            if event.node != node:
                continue
            runs = event.kind == "start" or runs
            if runs and event.kind == "end" and event.cause == "killed":
                runs = False
                own = [earlier for earlier in own if earlier.time_us <= event.time_us - UNWRITTEN_US]
            elif runs:
                own.append(event)
        found.append(own)
    return found


def forgot_its_voters(events: Sequence[TraceEvent]) -> tuple[list[TraceEvent], TraceEvent]:
    """A leader has no voters any more."""
    commit = at(events, lambda event: event.kind == "high_watermark" and event.role == "Leader")
    false = changed(events, commit, voters=())
    return false, false[commit]


FALSE = (
    committed_before_it_is_synced,
    fetched_before_it_is_appended,
    voted_twice,
    lost_a_synced_record,
    forgot_its_voters,
)


def test_true_and_false_traces(tlc_jar: Path) -> None:
    """One run of TLC checks them all."""
    true = [planned(seed, STATIC) for seed in IN_GATE]
    false = [make(true[0]) for make in FALSE]
    cut = [events[: events.index(culprit) + 2] for events, culprit in false]
    # The same events in a file for each node, with clocks that are seconds apart, and as if nodes had been killed.
    true += [merged(apart(true[0])), *(merged(completed(killed(events))) for events in true[:KILLED_IN_GATE])]
    found = check(tlc_jar, [steps_of(events) for events in (*true, *cut)])
    assert [verdict.refusal for verdict in found.verdicts[: len(true)]] == [None] * len(true)
    assert all(verdict.followed == verdict.steps > 80 for verdict in found.verdicts[: len(true)])
    for make, verdict, (_, culprit) in zip(FALSE, found.verdicts[len(true) :], false, strict=True):
        assert verdict.refusal is not None, make.__name__
        assert verdict.refusal.step.event == culprit, make.__name__
    others = [planned(seed, STATIC) for seed in IN_GATE_TOO]
    others += [merged(completed(killed(events))) for events in others[:KILLED_IN_GATE]]
    verdicts = check(tlc_jar, [steps_of(events) for events in others]).verdicts
    assert [verdict.refusal for verdict in verdicts] == [None] * len(others)
    refusal = found.verdicts[len(true) + FALSE.index(fetched_before_it_is_appended)].refusal
    assert refusal is not None
    assert refusal.told().splitlines() == [
        "event 28 at 1.268462 s cannot be: node 2 fetches records up to offset 1",
        "  the trace: after it, node 2 is Follower in epoch 1 with leader 1, log end 1, synced end 0, "
        "high watermark 0, voters 1 2 3",
        "  the specification: before, node 2 is Unattached in epoch 1 with no leader, log end 0, synced end 0, "
        "high watermark 0, voters 1 2 3",
        "  the specification: no action does this now",
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(NIGHTLY_SEEDS))
def test_seeds_with_every_fault(tlc_jar: Path, seed: int) -> None:
    steps = steps_of(planned(seed, PlanOptions(duration_us=20_000_000)))
    [verdict] = check(tlc_jar, [steps]).verdicts
    assert verdict.refusal is None, verdict.refusal.told()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", KILLED_NIGHTLY)
def test_seeds_with_killed_nodes(tlc_jar: Path, seed: int) -> None:
    events = planned(seed, STATIC)
    cut = killed(events)
    assert sum(map(len, cut)) < len(events) - 20
    [verdict] = check(tlc_jar, [steps_of(merged(completed(cut)))]).verdicts
    assert verdict.refusal is None, verdict.refusal.told()


def test_the_command_refuses_what_it_cannot_check(tmp_path: Path) -> None:
    file = tmp_path / "empty.trace"
    TraceWriter(file, TraceHeader(seed=1)).close()
    refused = CliRunner().invoke(command.main, [str(file)])
    assert refused.exit_code == 2
    assert "the trace has no events of nodes" in refused.output
