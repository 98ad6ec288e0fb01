"""What `scripts/release` refuses."""

from __future__ import annotations

import datetime
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.releasing.__main__ import Refused, agreed_version, check_kept, check_tag, licenses, vulnerabilities
from tests.support.programs import REPOSITORY

PROJECT = '[project]\nversion = "0.2.0"\n'
TODAY = datetime.date(2026, 11, 29)


@pytest.mark.parametrize(
    ("heading", "rehearse", "message"),
    [
        ("## 0.2.0, 2026-11-29", False, None),
        ("## 0.2.0, unreleased", True, None),
        ("## 0.2.0, unreleased", False, "0.2.0, unreleased; expected a date as in 2026-11-29"),
        ("## 0.2.0, 2026-11-30", False, "0.2.0, 2026-11-30; expected no date after 2026-11-29"),
        ("## 0.1.0, 2026-11-29", True, "0.1.0, 2026-11-29; expected first `## 0.2.0, DATE`, as in pyproject.toml"),
        ("0.2.0", False, "no line `## VERSION, DATE`; expected first `## 0.2.0, DATE`, as in pyproject.toml"),
    ],
)
def test_version_and_changelog_agree(heading: str, rehearse: bool, message: str | None) -> None:
    changelog = f"# Changelog\n\n{heading}\n\n- New.\n\n## 0.1.0, 2026-11-01\n" if heading[0] == "#" else heading
    if message is None:
        assert agreed_version(PROJECT, changelog, TODAY, rehearse=rehearse) == "0.2.0"
    else:
        with pytest.raises(Refused, match=re.escape(message)):
            agreed_version(PROJECT, changelog, TODAY, rehearse=rehearse)


def test_a_tag_that_exists_is_at_the_commit() -> None:
    check_tag("0.2.0", {"HEAD": "a"}.get)
    check_tag("0.2.0", {"HEAD": "a", "v0.2.0": "a"}.get)
    with pytest.raises(Refused, match=r"tag v0\.2\.0: is at b; expected none, or at a"):
        check_tag("0.2.0", {"HEAD": "a", "v0.2.0": "b"}.get)


def test_the_directories_of_the_release_are_kept(tmp_path: Path) -> None:
    def check() -> None:
        check_kept("0.2.0", {"HEAD": "new", "a": "old", "b": "new"}.get, tmp_path)

    with pytest.raises(Refused, match=r"tests/data/releases/0\.2\.0: not there; expected what `"):
        check()
    (tmp_path / "0.2.0").mkdir()
    told = tmp_path / "0.2.0" / "release.json"
    told.write_text('{"commit": "a"}')
    with pytest.raises(Refused, match="written by commit a, whose package is another; expected"):
        check()
    told.write_text('{"commit": "b"}')
    check()


@pytest.mark.parametrize(
    ("name", "found", "is_accepted"),
    [
        ("one", [{"license": {"id": "MIT"}}], True),
        ("one", [{"license": {"name": "License :: OSI Approved :: BSD License"}}], True),
        ("one", [{"expression": "Apache-2.0 AND BSD-3-Clause"}], True),
        ("one", [{"expression": "GPL-2.0-only OR MIT"}], True),
        ("one", [{"expression": "MIT AND GPL-2.0-only"}], False),
        ("one", [{"expression": "GPL-2.0-only AND (MIT OR ISC)"}], False),
        ("one", [{"license": {"id": "MIT"}}, {"license": {"id": "AGPL-3.0-only"}}], False),
        ("one", [], False),
        ("one", [{"license": {"name": ""}}], False),
        ("crc32c", [{"license": {"id": "LGPL-2.1-or-later"}}], True),
        ("crc32c", [{"license": {"id": "LGPL-3.0-or-later"}}], False),
    ],
)
def test_a_license_is_permissive_or_explained(name: str, found: list[dict[str, Any]], is_accepted: bool) -> None:
    listed = licenses({"components": [{"name": name, "version": "1", "licenses": found}]})
    assert next(listed).startswith(f"{name} 1: ")
    if is_accepted:
        assert next(listed, None) is None
    else:
        with pytest.raises(Refused, match=f"licenses: {name}: "):
            next(listed)


def test_a_vulnerability_ends_the_release_and_a_missing_database_is_told() -> None:
    clean: dict[str, Any] = {"name": "one", "version": "1", "vulns": []}
    skipped = {"name": "two", "skip_reason": "not found"}
    assert vulnerabilities({"dependencies": [clean]}) == "none known in 1 packages"
    assert vulnerabilities({"dependencies": [clean, skipped]}) == "NOT LOOKED UP: 1 of 2 packages: not found"
    with pytest.raises(Refused, match="vulnerabilities: one 1: PYSEC-1; expected none"):
        vulnerabilities({"dependencies": [{**clean, "vulns": [{"id": "PYSEC-1"}]}, skipped]})


def test_a_tree_with_changes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "release").write_text((REPOSITORY / "scripts" / "release").read_text())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    ended = subprocess.run(["bash", "scripts/release"], cwd=tmp_path, capture_output=True, text=True, check=False)
    message = "scripts/release: the working tree has changes; expected that everything is committed\n"
    assert (ended.returncode, ended.stderr) == (1, message)
