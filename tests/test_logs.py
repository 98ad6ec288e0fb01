"""Lines of the library go to structlog if the application configures it, else to `logging`, and name their node."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
import structlog
import structlog.testing
import trio

from kraft_trio.errors import ConfigError
from kraft_trio.logs import get_logger, naming_node
from kraft_trio.simulation import Cluster
from tests.support.lone_node import lone_node
from tests.support.on_cluster import on_cluster

PROGRAM = """
from kraft_trio.logs import get_logger, naming_node
with naming_node(7):
    get_logger("kraft_trio.test").warning("it happened", reason="two\\nlines")
    get_logger("kraft_trio.test").info("nobody asked")
"""


def test_an_application_without_logging_sees_warnings_on_stderr() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr == "it happened reason='two\\nlines' node_id=7\n"


def test_loggers_of_logging_get_the_lines(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(structlog, "is_configured", lambda: False)
    with caplog.at_level(logging.INFO, "kraft_trio"), naming_node(3):
        get_logger("kraft_trio.test").info("it happened", cause="a fault")
    (record,) = caplog.records
    assert (record.name, record.levelname, record.funcName) == (
        "kraft_trio.test",
        "INFO",
        "test_loggers_of_logging_get_the_lines",
    )
    assert record.getMessage() == "it happened cause='a fault' node_id=3"


def test_an_error_has_its_traceback(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(structlog, "is_configured", lambda: False)
    error = ConfigError("wrong")
    get_logger("kraft_trio.test").error("it failed", exc_info=error)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@on_cluster(voters=1, started=())
async def test_each_line_of_a_node_names_it(cluster: Cluster) -> None:
    with structlog.testing.capture_logs() as lines:
        async with lone_node(cluster, 1) as node:
            await node.wait_for_leader()
            await trio.sleep(1)
            get_logger("application").info("its own line")
    own = [line for line in lines if line["event"] == "its own line"]
    assert lines != own
    assert all(line.get("node_id") == 1 for line in lines if line not in own)
    assert "node_id" not in own[0]
