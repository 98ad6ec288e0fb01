"""Reading `--feature NAME=LEVEL`, which may be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft_trio.errors import ConfigError

MAX_LEVEL: Final = 2**15 - 1


def parse_levels(texts: Sequence[str]) -> dict[str, int]:
    """Raises ConfigError naming the text.  A feature that is given twice is refused, also with the same level."""
    levels: dict[str, int] = {}
    for text in texts:
        name, equals, level = (part.strip() for part in text.partition("="))
        if not name or not equals or not level.isascii() or not level.isdigit() or int(level) > MAX_LEVEL:
            raise ConfigError(f"--feature {text}: expected NAME=LEVEL, the level from 0 to {MAX_LEVEL}")
        if name in levels:
            raise ConfigError(f"--feature {text}: {name} is given twice")
        levels[name] = int(level)
    return levels
