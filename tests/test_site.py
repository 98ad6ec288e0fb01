"""The site that scripts/docs builds: nothing warns, each page is there, and it needs no other site."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import kraft_trio

REPOSITORY = Path(__file__).parent.parent
PAGES = [*(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "docs" / "reference" / "api").glob("*.rst")]
_LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=\"([^\"]*)\"")


@pytest.mark.rotating(3)
def test_site_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", "docs", ".", tmp_path]
    built = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    for page in PAGES:
        assert (tmp_path / page.relative_to(REPOSITORY).with_suffix(".html")).exists(), page
    for page in tmp_path.rglob("*.html"):
        assert not [target for target in _LOADED.findall(page.read_text()) if "//" in target], page
    documented = (tmp_path / "docs" / "reference" / "api" / "kraft_trio.html").read_text()
    assert [name for name in kraft_trio.__all__ if f'id="kraft_trio.{name}"' not in documented] == []
    first = (tmp_path / "index.html").read_text()
    assert all(f'href="{page}.html"' in first for page in ("docs/start/embedding", "docs/reference/api/kraft_trio"))
    assert "search.html" in first
    assert "searchindex.js" in (tmp_path / "search.html").read_text()
