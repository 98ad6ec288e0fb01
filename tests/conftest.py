"""Options of the test run, and fixtures that tests of several packages use."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from harness import portable
from harness.command import FORK_SERVER

if portable.IS_PORTABLE:
    portable.take_away()

from kraft_trio.actors.replication import leader_replication
from kraft_trio.simulation.clients.operations import OPERATIONS
from kraft_trio.system import kernel_syncs
from tests.support import interop_matrix, sizes
from tests.support.rotation import Rotation

# Hypothesis would measure real time, and a busy machine would fail tests.
settings.register_profile(
    "kraft", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=sizes.examples(100)
)
settings.load_profile("kraft")


BEGIN_WITH = (
    *("spark", "test_attacks.py", "test_stories.py", "test_snapshot_kills.py", "test_membership_commands.py"),
    *("test_kafka_witness.py", "test_kafka_reassignment.py"),
)
"""The longest groups of tests: one that began late would keep several workers waiting."""


GC_THRESHOLD = 50_000
"""How many new objects there are when the garbage collector looks at them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-scenarios",
        action="store_true",
        help="write what comes of each scenario script under its steps, in place; review the changes as code",
    )
    parser.addoption(
        interop_matrix.OPTION,
        action="store_true",
        help="write to tests/interop/results.json what the interop tests find; then run docs/generate.py",
    )
    parser.addoption(
        "--simulated-logs",
        type=int,
        metavar="COUNT",
        help="how many simulated clusters leave logs for Apache Kafka's own classes to read (tests/interop)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """A shell lets what it runs in the background ignore interrupts, and so would the nodes that tests interrupt."""
    if config.getoption(interop_matrix.OPTION) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(interop_matrix.Recorder())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    covered = "everything" if sizes.IS_ALL else "the part of this commit"
    return f"size: {covered}; KRAFT_TEST_BASE={sizes.base()} repeats it"


def is_in_size(item: pytest.Item, rotation: Rotation) -> bool:
    """Return whether this run covers the test: see `scripts/test --help`."""
    if portable.IS_PORTABLE and item.get_closest_marker("linux"):
        return False
    if sizes.IS_ALL:
        return True
    if item.get_closest_marker("nightly"):
        return sizes.IS_INTEROP and item.get_closest_marker("interop") is not None
    return not sizes.IS_WHOLE or rotation.covers(item)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run does not cover; group the others by file, and order them for several workers."""
    rotation = Rotation(sizes.base())
    covered: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (covered if is_in_size(item, rotation) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = covered
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
        interop_matrix.mark(item)
    if hasattr(config, "workerinput"):
        rank = {group: number for number, group in enumerate(BEGIN_WITH)}
        items.sort(key=lambda item: rank.get(group_of(item), len(rank)))


def pytest_collection_finish() -> None:
    """Keep the garbage collector from traversing modules and tests again and again, as `kraft server` does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def group_of(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return item.path.name if marker is None else str(marker.args[0])


@pytest.fixture(scope="session", autouse=True)
def cheap_processes() -> Iterator[None]:
    """The processes that tests start find pyspark as it is installed, and `kraft` is forked."""
    folder = str(Path(__file__).parent / "support" / "lean")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
        # The fork server adopts orphans, which Linux alone lets it do.
        if not sizes.IS_ALL and sys.platform == "linux":
            patch.setenv(FORK_SERVER, "1")
        yield


@pytest.fixture
def by_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kraft` processes start as they do for users."""
    monkeypatch.delenv(FORK_SERVER, raising=False)


@pytest.fixture(autouse=True)
def logging_of_its_own() -> Iterator[None]:
    """A command that a test runs logs to the test's stderr, which is closed when the next test logs."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def no_kernel_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fsync thread makes all syncs, as where the kernel makes none for a process."""
    monkeypatch.setattr(kernel_syncs, "kernel_syncs", lambda: None)


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
