"""Backups of a quorum that are sound, and the same damaged."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from .directories import write_directories

if TYPE_CHECKING:
    from kraft_trio.spark.audit import Audit

PARTITION = "__cluster_metadata-0"


def audit_of(run_id: str, *, is_violated: bool = True) -> Audit:
    """An audit of one check."""
    from kraft_trio.spark.audit import Audit, Result, Violation
    from kraft_trio.spark.audit.results import Status

    status = Status.VIOLATED if is_violated else Status.PASSED
    result = Result("log_matching", "orders", status, "error", 7, int(is_violated), "one" if is_violated else "")
    violation = Violation("log_matching", "orders", "offset 1", "a", "b", "error")
    violations = (violation,) if is_violated else ()
    return Audit(run_id, datetime(2026, 11, 22, 3, 4, 5, 678901, tzinfo=UTC), (result,), violations, {})


@pytest.fixture(scope="session")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four directories, `node-1` to `node-4`; nobody changes them."""
    folder = tmp_path_factory.mktemp("backups")
    write_directories(folder)
    return folder


@pytest.fixture
def damaged(backups: Path, tmp_path: Path) -> Path:
    """The same, damaged."""
    folder = tmp_path / "damaged"
    shutil.copytree(backups, folder)
    damage(folder)
    return folder


def damage(folder: Path) -> None:
    """Flip a bit in the middle of node 2's log, and tear the tail of node 3's."""
    in_the_middle = sorted((folder / "node-2" / PARTITION).glob("*.log"))[1]
    content = bytearray(in_the_middle.read_bytes())
    content[100] ^= 1
    in_the_middle.write_bytes(content)
    last = max((folder / "node-3" / PARTITION).glob("*.log"))
    last.write_bytes(last.read_bytes()[:-10])
    # A node writes this file when it stops cleanly; then it leaves no torn tail.
    max(last.parent.glob("*.snapshot")).unlink()


@pytest.fixture
def kraft(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The command in this process, which must not start Spark."""
    monkeypatch.delattr("kraft_trio.cli.audit.quiet_session")
    return CliRunner()


def run(kraft: CliRunner, *arguments: str) -> tuple[int, list[str]]:
    from kraft_trio.cli.audit import audit

    result = kraft.invoke(audit, list(arguments), standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.return_value, result.output.splitlines()
