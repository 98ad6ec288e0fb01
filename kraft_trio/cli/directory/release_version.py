"""`--release-version`: the kraft.version that a release of Apache Kafka finalizes (KIP-853 "--release-version")."""

from __future__ import annotations

import re
from typing import Final

from kraft_trio.errors import ConfigError
from kraft_trio.protocol.voter_set import SUPPORTED_KRAFT_VERSIONS

_RELEASE: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]{1,4})?(?:-IV[0-9]{1,4})?", re.ASCII)
_FIRST_WITH_KRAFT: Final = (3, 0)
_FIRST_WITH_DYNAMIC_VOTERS: Final = (3, 9)


def kraft_version_of_release(text: str) -> int:
    """Read `MAJOR.MINOR`, with Kafka's suffixes if it has any.  Raises ConfigError naming the flag."""
    match = _RELEASE.fullmatch(text.strip())
    release = (0, 0) if match is None else (int(match[1]), int(match[2]))
    if release < _FIRST_WITH_KRAFT:
        raise ConfigError(f"--release-version {text}: expected a release of Kafka from 3.0 on, such as 4.1")
    return SUPPORTED_KRAFT_VERSIONS.maximum if release >= _FIRST_WITH_DYNAMIC_VOTERS else 0
