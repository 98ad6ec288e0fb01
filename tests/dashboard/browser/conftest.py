"""The page in headless Chromium, before quorums of real processes.

The tests need playwright (`pip install playwright`), Chromium (Debian's package, or CHROMIUM names it), and for one of
them axe-core (`npm install --prefix .browser axe-core`, or AXE_CORE names its file).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.command import KRAFT
from harness.ports import free_ports
from harness.quorum import Quorum
from harness.waiting import WAIT_SECONDS
from tests.dashboard.browser.reader import Reader

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(os.environ.get("AXE_CORE", ".browser/node_modules/axe-core/axe.min.js"))


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.acceptance)
    item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser.  Skips the test if it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def axe() -> Path:
    """The file of axe-core.  Skips the test if it is not installed."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed (npm install --prefix .browser axe-core)")
    return AXE


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    """Three voters and an observer, running."""
    made = Quorum(tmp_path, voters=3, observers=1, settings={"kraft.state.machine": "latest-by-key"})
    try:
        made.start()
        made.produce([str(number) for number in range(20)])
        yield made
    finally:
        made.kill_all()


@pytest.fixture
def dashboard() -> Iterator[Callable[[Quorum], str]]:
    """Starts `kraft dashboard` for a quorum, and returns the address of the page."""
    started: list[subprocess.Popen[str]] = []

    def start(quorum: Quorum) -> str:
        [port] = free_ports(1)
        command = [KRAFT, "dashboard", "--bootstrap-controller", quorum.bootstrap_servers, "--port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert f"http://127.0.0.1:{port}/" in line, line
        return f"http://127.0.0.1:{port}/"

    yield start
    for process in started:
        process.terminate()
        process.wait(WAIT_SECONDS)


@pytest.fixture
def reader(chromium: Any) -> Iterator[Callable[..., Reader]]:
    """Opens a page for somebody who reads it.  At the end, nothing may have been said on the console."""
    readers: list[Reader] = []

    def open_at(url: str, **context: Any) -> Reader:
        reader = Reader(chromium.new_context(**context), url)
        readers.append(reader)
        return reader

    yield open_at
    for one in readers:
        one.close()
        assert one.complaints == []
