"""No quorum survives a voter that breaks its promises.  The simulator knows of it, and demands that losses are told."""

from __future__ import annotations

import pytest

from kraft_trio.actors.context.lost_records import LostRecords
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script

LOST = """
elect 1
stop 2
keep-disk 2
start 2
kill 3
append "b" via 1
settle
stale-disk 2
cut 1 | 2 3
start 2 3
elect 3
heal
settle
"""


def failure_of(text: str) -> str:
    return run_script(parse_script(text)).failure or ""


def test_loss_that_is_told_is_no_violation() -> None:
    assert failure_of(LOST) == ""


def test_loss_that_nobody_tells_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cut", "refused"):
        monkeypatch.setattr(LostRecords, name, lambda *_: None)
    failure = failure_of(LOST)
    assert "what is lost because a voter broke its promises is told" in failure
    assert "no node has said so" in failure


def test_same_loss_without_a_broken_promise_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunFacts, "may_lose", property(lambda _: False, lambda _, _value: None), raising=False)
    assert "invariant 7 " in failure_of(LOST)


def test_old_copy_that_loses_nothing_excuses_nothing() -> None:
    """The others hold everything, so the invariants continue."""
    spared = LOST.replace("kill 3\n", "").replace("start 2 3", "start 2").replace("elect 3\n", "elect 2\n")
    facts: list[RunFacts] = []
    real = RunFacts.__init__

    def init(self: RunFacts, *arguments: object, **named: object) -> None:
        real(self, *arguments, **named)  # type: ignore[arg-type]
        facts.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFacts, "__init__", init)
        assert failure_of(spared) == ""
    assert not facts[-1].may_lose
    assert facts[-1].old_copies


def test_finding_that_is_not_there_is_not_as_expected() -> None:
    failure = failure_of('elect 1\nsettle\nexpect finding "lost-records"\n')
    assert "explain finds survival; expected lost-records" in failure


BLANK_AT_A_DEAD_ADDRESS = """\
seed 6115006
voters 1 5
set controller.quorum.election.timeout.ms 200
set controller.quorum.fetch.timeout.ms 400

at 4s
misadvertise 5
restart 5
at 7s
blank-majority
at 8s
recover
"""


def test_survivor_tells_of_blank_disks_behind_dead_announced_addresses() -> None:
    """Seed 6115005: a node with another disk at the known address counted as unreachable."""
    assert failure_of(BLANK_AT_A_DEAD_ADDRESS) == ""
