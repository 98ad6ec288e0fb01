"""The example of a nightly audit: what it prints, keeps and exits with."""

from __future__ import annotations

import runpy
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark" / "nightly_audit.py"


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    return tmp_path / "nights" / "orders"


@pytest.mark.usefixtures("spark")
def test_the_nightly_audit_tells_what_has_become_worse(
    backups: Path,
    damaged: Path,
    nights: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from kraft_trio.spark import audit as audits

    monkeypatch.setattr(audits, "audit", partial(audits.audit, checks=("log_checksums", "log_torn_tail")))

    def nightly() -> tuple[object, list[str]]:
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(nights.parent), str(tmp_path / "out")])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(EXAMPLE), run_name="__main__")
        return ended.value.code, capsys.readouterr().out.splitlines()

    shutil.copytree(backups, nights / "2026-11-20")
    assert nightly() == (0, ["1 clusters, 0 errors, 0 warnings"])

    shutil.copytree(damaged, nights / "2026-11-21")
    (nights / "2026-11-21" / "SHA256SUMS").touch()
    (nights / ".2026-11-22 is being copied").mkdir()
    code, lines = nightly()
    assert code == 1
    assert any(": log_checksums: 0 -> 1 violations" in line for line in lines)
    assert any(": log_torn_tail: 0 -> 1 violations" in line for line in lines)
    assert len(list((tmp_path / "out").glob("report-*.html"))) == 2
