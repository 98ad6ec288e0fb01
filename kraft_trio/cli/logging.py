"""Where the log of a running node goes: stderr, through structlog, for people or as one JSON object a line."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from kraft_trio.tracing.node_trace import trace_log_line


def configure_logging(log_format: str, level: str, *, traced: bool = False) -> None:
    """Set structlog up for this process.  `log_format` is `console` or `json`, `level` a name of Python's logging.

    With `traced`, what a traced node logs goes into its trace too, from level info on whatever `level` is.
    """
    number = getattr(logging, level.upper())
    processors: list[Any] = [
        *([trace_log_line, _Above(number)] if traced else ()),
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=log_format == "json"),
    ]
    if log_format == "json":
        processors += [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    else:
        processors.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(min(number, logging.INFO) if traced else number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


class _Above:
    """A processor that lets only lines of a level and of those above it pass."""

    def __init__(self, level: int) -> None:
        self._level = level

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if logging.getLevelNamesMapping()[method.upper()] < self._level:
            raise structlog.DropEvent
        return event
