"""Options of the test run, and fixtures that tests of several packages use."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from kraft_trio.actors import leader_replication
from kraft_trio.simulation.clients.operations import OPERATIONS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-scenarios",
        action="store_true",
        help="write what comes of each scenario script under its steps, in place; review the changes as code",
    )


def pytest_configure() -> None:
    """A shell lets what it runs in the background ignore interrupts, and so would the nodes that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def acknowledges_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader takes for committed what it has synced itself."""

    def next_high_watermark(*_args: Any, synced_end_offsets: Any, leader: Any, current: int | None, **_: Any) -> int:
        committed: int = max(synced_end_offsets[leader], current or 0)
        return committed

    monkeypatch.setattr(leader_replication, "next_high_watermark", next_high_watermark)


@pytest.fixture
def registry() -> Iterator[None]:
    """What kinds of operation a test registers is forgotten after it."""
    before = dict(OPERATIONS)
    yield
    OPERATIONS.clear()
    OPERATIONS.update(before)
