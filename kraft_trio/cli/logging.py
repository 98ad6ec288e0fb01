"""Where the log of a running node goes: stderr, through structlog, for people or as one JSON object a line."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def configure_logging(log_format: str, level: str) -> None:
    """Set structlog up for this process.  `log_format` is `console` or `json`, `level` a name of Python's logging."""
    processors: list[Any] = [
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
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
