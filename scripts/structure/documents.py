"""How many words the documents have that readers are led to."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PATHS: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")


def words(root: Path) -> dict[str, int]:
    """The words of each Markdown file in the checkout at `root`, by its path."""
    named = [root / name for name in PATHS]
    paths = [path for one in named for path in (sorted(one.rglob("*.md")) if one.is_dir() else [one])]
    return {str(path.relative_to(root)): len(path.read_text().split()) for path in paths}
