"""The limit of open files: raised as far as it goes, and what is left of it for connections."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.config import NodeConfig
from kraft_trio.logs import get_logger
from kraft_trio.system import descriptors

log = get_logger(__name__)

HEADROOM: Final = 96
"""Descriptors that connections never take: the log's segments, snapshots, directories, the node's own connections."""


def raise_open_file_limit() -> int:
    """Raise this process's soft limit to its hard limit if possible.  Returns the soft limit."""
    limit, reason = descriptors.raise_limit()
    if reason:
        log.warning("limit of open files cannot be raised", limit=limit, reason=reason)
    return limit


def fitted(config: NodeConfig, open_files: int) -> NodeConfig:
    """The configuration with as many connections as that limit has room for in addition to the log's files.

    The gateway of the key-value store takes as many again.
    """
    places = open_files - HEADROOM if open_files >= 2 * HEADROOM else open_files // 2
    places = max(1, places // 2 if config.kv_listener else places)
    if config.max_connections <= places:
        return config
    log.warning(
        "fewer connections than max.connections",
        configured=config.max_connections,
        allowed=places,
        limit_of_open_files=open_files,
    )
    return attrs.evolve(config, max_connections=places)
