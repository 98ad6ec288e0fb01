"""kraft.state.machine: which state machine a node runs, and what is said of a value that names none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import pytest

from kraft_trio.application.configured_state_machine import state_machine_of
from kraft_trio.application.latest_by_key import LatestByKey
from kraft_trio.application.state_machine import Committed
from kraft_trio.config import NodeConfig, parse_config
from kraft_trio.errors import ConfigError
from kraft_trio.storage.batches.batch import NewRecord, Record
from tests.support.ledger import Ledger

HERE = "tests.application.test_configured_state_machine"


class Counter:
    """A state machine of a user's."""

    async def on_commit(self, records: Sequence[Record]) -> None: ...

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None: ...

    def save(self) -> Iterable[NewRecord]:
        return ()


class Factories:
    counter = Counter


class ForgetsToSave:
    async def on_commit(self, records: Sequence[Record]) -> None: ...


class Waits(Counter):
    def on_commit(self, records: Sequence[Record]) -> None: ...  # type: ignore[override]


class Delays(Ledger):
    async def apply(self, record: Committed[bytes]) -> int:  # type: ignore[override]
        return 0


def breaks() -> Counter:
    raise OSError("no such thing")


def config(machine: str | None) -> NodeConfig:
    properties = {"node.id": "1", "listeners": "CONTROLLER://127.0.0.1:9093", "metadata.log.dir": "data"}
    if machine is not None:
        properties["kraft.state.machine"] = machine
    return parse_config(properties).config


@pytest.mark.parametrize("machine", [None, "none"])
def test_there_is_none_unless_one_is_named(machine: str | None) -> None:
    assert state_machine_of(config(machine)) is None


def test_each_node_has_its_own() -> None:
    first, second = (state_machine_of(config("latest-by-key")) for _ in range(2))
    assert isinstance(first, LatestByKey)
    assert first is not second


def test_one_of_the_user() -> None:
    assert isinstance(state_machine_of(config(f"{HERE}:Counter")), Counter)
    assert isinstance(state_machine_of(config(f"{HERE}:Factories.counter")), Counter)
    assert isinstance(state_machine_of(config("tests.support.ledger:Ledger")), Ledger)


@pytest.mark.parametrize(
    "machine", ["", "latest", "NONE", "module", "module:", ":factory", "a b:c", "a:b:c", "a/b.py:c"]
)
def test_a_value_that_names_none(machine: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(machine)
    assert str(caught.value) == f"kraft.state.machine={machine}; expected none, latest-by-key, kv, or module:factory"


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        ("nowhere:make", "there is no module nowhere where this Python looks for modules (see PYTHONPATH)"),
        ("tests.nowhere:make", "there is no module tests.nowhere where"),
        (f"{HERE}:absent", f"AttributeError: module '{HERE}' has no attribute 'absent'"),
        (f"{HERE}:HERE", "TypeError: 'str' object is not callable"),
        (f"{HERE}:breaks", "OSError: no such thing"),
        (f"{HERE}:ForgetsToSave", "made ForgetsToSave, which has no method load, save"),
        (f"{HERE}:Waits", "made Waits, whose on_commit must be async"),
        (f"{HERE}:Delays", "made Delays, whose apply must not be async"),
    ],
)
def test_what_is_named_cannot_be_used(machine: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        state_machine_of(config(machine))
    assert str(caught.value).startswith(f"kraft.state.machine={machine}: {reason}")


def test_a_module_that_lacks_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking_machine.py").write_text("import nowhere_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=r"lacking_machine cannot be imported: .*No module named 'nowhere_at_all'"):
        state_machine_of(config("lacking_machine:make"))
