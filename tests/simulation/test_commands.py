"""`kraft simulate --state-machine`: random runs with a user's state machine, and the mistakes that they find."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from kraft_trio.errors import ConfigError, NotAppendedError
from kraft_trio.node import Node
from kraft_trio.protocol.request_table import RequestTable, Standing
from kraft_trio.simulation.campaign.outcome import Failure
from kraft_trio.simulation.campaign.seed_run import SeedRuns, run_plan, run_seed
from kraft_trio.simulation.commands import agreement, checked_machine
from kraft_trio.simulation.commands.simulated_machine import machine_named, serde_named
from kraft_trio.simulation.faults.nemesis import PlanOptions, make_plan
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script

pytestmark = pytest.mark.rotating(2)

BROKEN = "tests.simulation.broken_banks:"
BANK = PlanOptions(duration_us=5_000_000, state_machine="examples.bank:Bank", serde="examples.bank:SERDE")


def failure_of(options: PlanOptions, seeds: range = range(6)) -> Failure:
    """The first failure that one of the seeds finds.

    A test begins with a seed that finds its mistake soon; the others follow in case that a change makes it miss.
    """
    for seed in seeds:
        failure = run_seed(seed, options).failure
        if failure is not None:
            return failure
    raise AssertionError(f"no seed of {seeds} fails")


@pytest.mark.rotating(8)
@pytest.mark.parametrize("seed", range(8))
def test_the_bank_withstands_random_faults(seed: int) -> None:
    outcome = run_seed(seed, BANK)
    assert outcome.failure is None
    assert outcome.counts["acknowledged commands"] > 0


def test_queries_behind_barriers_are_checked() -> None:
    assert run_seed(4, BANK).counts["answered queries"] > 0


@pytest.mark.parametrize(
    ("bank", "title", "words"),
    [
        ("RandomBank", checked_machine.NO_CLOCK, "calls random.randrange at broken_banks.py:"),
        ("DoubleBank", agreement.AS_THE_MODEL, "the model gives"),
        ("SharedBank", agreement.SAME_RESULTS, "another instance gives"),
        ("HidingBank", agreement.SAME_STATES, "after offset"),
    ],
)
def test_a_broken_machine_is_found(bank: str, title: str, words: str) -> None:
    failure = failure_of(attrs.evolve(BANK, state_machine=BROKEN + bank), range(2))
    assert failure.title == title
    assert words in failure.facts[1]


def test_a_stale_answer_is_found() -> None:
    options = attrs.evolve(BANK, state_machine=f"{BROKEN}ForgetfulBank", duration_us=10_000_000)
    failure = failure_of(options, range(3, 9))
    assert failure.title == agreement.AS_THE_MODEL
    assert "the commands up to there, applied again, give" in failure.facts[1]


def test_a_request_that_is_applied_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's own mistake: it forgets which requests it has applied."""
    monkeypatch.setattr(RequestTable, "standing", lambda *_: Standing.NEW)
    monkeypatch.setattr(RequestTable, "add", lambda *_: None)
    failure = failure_of(attrs.evolve(BANK, duration_us=20_000_000), range(12))
    assert failure.title == agreement.SAME_COMMANDS
    assert "applies it again at offset" in failure.facts[1]


def test_a_result_that_is_told_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    execute = Node.execute

    async def one_more(self: Node, command: object, request_id: UUID) -> object:
        return await execute(self, command, request_id) + 1

    monkeypatch.setattr(Node, "execute", one_more)
    failure = failure_of(attrs.evolve(BANK, profiles=()))
    assert failure.title == agreement.TOLD_AS_APPLIED


def test_a_refusal_of_what_is_applied_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    execute = Node.execute

    async def refuse(self: Node, command: object, request_id: UUID) -> object:
        await execute(self, command, request_id)
        raise NotAppendedError("it was applied")

    monkeypatch.setattr(Node, "execute", refuse)
    failure = failure_of(attrs.evolve(BANK, profiles=()))
    assert failure.title == agreement.TOLD_AS_APPLIED
    assert "was told: it was applied" in failure.facts[0]


@pytest.mark.rotating(2)
def test_a_run_is_repeated_by_its_seed_and_by_its_script() -> None:
    plan = make_plan(2, BANK)
    outcome = run_plan(plan)
    assert outcome.digest == run_plan(plan).digest
    script = parse_script(plan.script().text)
    assert script.header == plan.header
    assert run_script(script).digest == outcome.digest


def test_the_command_that_repeats_a_run_names_the_machine() -> None:
    command = SeedRuns(BANK).replay(7)
    assert command.endswith("--time 5s --state-machine examples.bank:Bank --serde examples.bank:SERDE")
    assert SeedRuns(BANK).settings()["state machine"] == "examples.bank:Bank"
    assert "state machine" not in SeedRuns(PlanOptions()).settings()


class Commandless:
    def apply(self, record: object) -> None: ...

    def save(self) -> list[bytes]:
        return []

    async def load(self, records: object) -> None: ...


class HalfQuerying(Commandless):
    def random_command(self, source: object) -> bytes:
        return b""

    def answer(self, query: object) -> None: ...


@pytest.mark.parametrize(
    ("name", "serde", "reason"),
    [
        ("no.such:Bank", None, "there is no module no"),
        ("tests.simulation.test_commands:BROKEN", None, "str, expected a class or another factory"),
        ("tests.simulation.test_commands:Commandless", None, "which has no method random_command"),
        ("tests.simulation.test_commands:HalfQuerying", None, "which has only one of random_query and answer"),
        ("kraft_trio:LatestByKey", None, "made LatestByKey, which has no method apply"),
        ("examples.bank:Bank", None, "cannot encode a command: value: "),
        ("examples.bank:Bank", "examples.bank:ACCOUNTS", "tuple, expected an object with encode and decode"),
    ],
)
def test_what_cannot_be_simulated_is_refused(name: str, serde: str | None, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        serde_named(serde, machine_named(name)())


def test_a_serde_without_a_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match="serde: given without a state machine"):
        PlanOptions(serde="examples.bank:SERDE")
