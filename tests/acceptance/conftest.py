"""Fixtures of the acceptance tests: quorums of real processes, stopped in every case, their logs shown on failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from harness.quorum import Quorum
from scripts.stories.story import Story

_LOGS: pytest.StashKey[list[Quorum]] = pytest.StashKey()

logging.getLogger("kafka").setLevel(logging.CRITICAL)
"""kafka-python logs an error for every connection that a killed node does not answer."""

MakeQuorum = Callable[..., Quorum]


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.acceptance)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the nodes' logs to the report of a test that failed."""
    report = yield
    if report.failed:
        for quorum in item.session.stash.get(_LOGS, []):
            report.sections.extend(quorum.logs_for_report())
    return report


def _quorums(session: pytest.Session, directory: Path) -> Iterator[MakeQuorum]:
    shown = session.stash.setdefault(_LOGS, [])
    made: list[Quorum] = []

    def make(voters: int = 3, observers: int = 0, *, is_steady: bool = False, **settings: str) -> Quorum:
        """Format nodes below a directory of their own; `settings` are configuration keys, `_` for the dots.

        With `is_steady`, the leader stays until a test stops it.
        """
        home = directory / f"quorum-{len(made)}"
        home.mkdir()
        keys = {key.replace("_", "."): value for key, value in settings.items()}
        quorum = Quorum(home, voters, observers, keys, is_steady=is_steady)
        made.append(quorum)
        shown.append(quorum)
        return quorum

    yield make
    for quorum in made:
        quorum.kill_all()
        shown.remove(quorum)


@pytest.fixture
def make_quorum(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeQuorum]:
    """Makes quorums that live as long as the test."""
    yield from _quorums(request.session, tmp_path)


@pytest.fixture(scope="module")
def make_module_quorum(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeQuorum]:
    """Makes quorums that the tests of a module share."""
    yield from _quorums(request.session, tmp_path_factory.mktemp("shared"))


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    """A story that stops its nodes after the test."""
    told = Story(tmp_path)
    with told:
        yield told
    for node in told.nodes.values():
        print(f"--- {node.log}:\n{node.log_text()[-4000:]}")
