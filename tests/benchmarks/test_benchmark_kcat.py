"""The load through kcat: what it counts, and what becomes of a kcat that fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from benchmarks.loads import kcat

Fake = Callable[[str], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    def install(script: str) -> None:
        program = tmp_path / "kcat"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return install


def test_all_lines_count_if_kcat_ends_well(fake: Fake, tmp_path: Path) -> None:
    fake(f"wc -l > {tmp_path}/lines")
    result = kcat.load("host:1", 10, 0.01, False, 5)
    assert (result.records, result.failed) == (int((tmp_path / "lines").read_text()), 0)
    assert result.records > 0


def test_records_that_were_not_delivered_are_subtracted(fake: Fake, tmp_path: Path) -> None:
    fake(
        f"wc -l > {tmp_path}/lines; for n in 1 2; do echo '% Delivery failed for message: timed out' >&2; done; exit 1"
    )
    result = kcat.load("host:1", 10, 0.01, False, 5)
    assert (result.records, result.failed) == (int((tmp_path / "lines").read_text()) - 2, 2)


def test_the_reason_is_told_if_kcat_fails(fake: Fake) -> None:
    fake("echo '% ERROR: no brokers' >&2; exit 1")
    with pytest.raises(click.ClickException, match="no brokers"):
        kcat.load("host:1", 1000, 5.0, False, 5)
