"""Fixtures of the tests with Apache Kafka's own programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.kafka import why_no_kafka
from tests.acceptance.conftest import make_module_quorum, make_quorum, pytest_runtest_makereport
from tests.interop.kafka_controllers import Controllers
from tests.interop.mixed_quorum import MixedQuorum, compile_peer
from tests.support.interop_matrix import says

__all__ = ["make_module_quorum", "make_quorum", "pytest_runtest_makereport", "says"]

WHY_NOT = why_no_kafka("kafka-tools", compiler=True) or why_no_kafka()


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.acceptance)
    item.add_marker(pytest.mark.interop)
    item.add_marker(pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)))
    item.add_marker(pytest.mark.rotating(2, by_file=True))


@pytest.fixture
def controllers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Controllers]:
    """Kafka's own; a parameter has their ids."""
    made = Controllers(tmp_path, getattr(request, "param", (1, 2)))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def peer_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_peer(tmp_path_factory.mktemp("classes"))


@pytest.fixture
def make_mixed(peer_classes: Path, tmp_path: Path) -> Iterator[Callable[..., MixedQuorum]]:
    """Makes one; a test that fails shows what its nodes have logged."""
    made: list[MixedQuorum] = []

    def make(*kinds: str, **options: Any) -> MixedQuorum:
        made.append(MixedQuorum(tmp_path, peer_classes, dict(enumerate(kinds, 1)), **options))
        return made[0]

    yield make
    for quorum in made:
        quorum.stop()
        print(quorum.said())
