"""The library's loggers: structlog if the application configures it, or else Python's `logging`.

Each line of a node names the node.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

Listener = Callable[[str, Mapping[str, Any]], object]
"""Called with each line and its fields, at whatever level.  It must neither block nor fail."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_node_id: ContextVar[int | None] = ContextVar("node_id", default=None)
_shortened_texts = 0


def shortened_texts() -> int:
    """How many texts this process has shortened in lines of its log so far."""
    return _shortened_texts


def count_shortened_text() -> None:
    """Count a text that was shortened."""
    global _shortened_texts  # noqa: PLW0603
    _shortened_texts += 1


@contextmanager
def _set(variable: ContextVar[T | None], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def naming_node(node_id: int) -> AbstractContextManager[None]:
    """While it is open, lines of this task name the node, and so do those of tasks started meanwhile."""
    return _set(_node_id, node_id)


def heard_by(listener: Listener) -> AbstractContextManager[None]:
    """While it is open, `listener` hears the lines of this task and of those started meanwhile."""
    return _set(_listener, listener)


class Logger:
    """Passes each line to structlog or `logging`, whichever is configured when the line is written.

    Without any configuration, `logging` writes warnings and errors to stderr.  structlog would write to stdout.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._structlog: Any = None
        self._logging = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields)

    def log(self, level: int, event: str, **fields: Any) -> None:
        """`level` is a number, as in `logging`."""
        self._write(level, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if (node_id := _node_id.get()) is not None:
            fields.setdefault("node_id", node_id)
        if (listener := _listener.get()) is not None:
            listener(event, fields)
        # An application that configures structlog has imported it.  Others need not pay for that, nor for rich.
        structlog = sys.modules.get("structlog")
        if getattr(structlog, "is_configured", bool)():
            if self._structlog is None:
                assert structlog is not None
                self._structlog = structlog.get_logger(self._name)
            self._structlog.log(level, event, **fields)
            return
        if self._logging.isEnabledFor(level):
            exc_info = fields.pop("exc_info", None)
            # A field may hold a peer's words: its repr is one line.
            details = "".join(f" {name}={value!r}" for name, value in fields.items())
            self._logging.log(level, "%s%s", event, details, exc_info=exc_info, stacklevel=3)


def get_logger(name: str) -> Logger:
    """The logger of a module, by its `__name__`."""
    return Logger(name)
