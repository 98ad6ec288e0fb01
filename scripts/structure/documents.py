"""How many words people have written in the documents that readers are led to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PATHS: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")
_WORD: Final = re.compile(r"\S*\w\S*")
"""Has a letter or a digit: the bars of a table are no words."""
_GENERATED: Final = re.compile(r"(?<=<!-- generated: )(\S+ -->\n).*?(?=<!-- end -->)", re.DOTALL)


def words(root: Path) -> dict[str, int]:
    """The words of each Markdown file in the checkout at `root`, by its path, without the parts that are generated."""
    return {path: _count(_GENERATED.sub(r"\1", text)) for path, text in _texts(root).items()}


def generated_words(root: Path) -> dict[str, int]:
    """The words that docs/generate.py makes of code and of docs/rules.toml, by the path of the file that has them."""
    whole = {path: _count(text) for path, text in _texts(root).items()}
    return {path: whole[path] - count for path, count in words(root).items() if count != whole[path]}


def _count(text: str) -> int:
    return len(_WORD.findall(text))


def _texts(root: Path) -> dict[str, str]:
    named = [root / name for name in PATHS]
    paths = [path for one in named for path in (sorted(one.rglob("*.md")) if one.is_dir() else [one])]
    return {str(path.relative_to(root)): path.read_text() for path in paths}
