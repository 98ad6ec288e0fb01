"""The log of a running node: written to stderr through structlog, as text or as JSON lines."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from kraft_trio.background_log import BackgroundLog, background_logger_factory
from kraft_trio.cli.serving.log_limits import LineLimit
from kraft_trio.cli.terminal.colors import takes_colors
from kraft_trio.cli.terminal.escaping import MAX_TEXT, cut, escaped, escaped_lines
from kraft_trio.logs import count_shortened_text
from kraft_trio.tracing.node_trace import trace_log_line

MAX_TRACEBACK: Final = 20_000
"""Characters of one."""
MAX_ITEMS: Final = 100
"""Maximum number of items shown of a list or mapping."""

_TRACEBACKS: Final = ("exception", "stack")
_UNTOUCHED: Final = ("exc_info", "stack_info")

_longest_text = MAX_TEXT


def limit_texts(characters: int) -> None:
    """Set the most characters of one text in a line of this process (`kraft.log.text.max.characters`)."""
    global _longest_text  # noqa: PLW0603
    _longest_text = characters


def configure_logging(log_format: str, level: str, *, traced: bool = False) -> None:
    """Configure structlog for this process.  `log_format` is `console` or `json`; `level` names a level of Python's
    logging.

    With `traced`, log lines from info upwards also go into the node's trace, whatever `level` is.  If stderr is a
    BackgroundLog, as in `kraft server start`, logging never waits for the reader of stderr.
    """
    number = getattr(logging, level.upper())
    limit = LineLimit(time.monotonic)
    stderr = sys.stderr
    rendering = _rendering(log_format, colors=takes_colors(stderr))
    factory: Any = structlog.PrintLoggerFactory(stderr)
    if isinstance(stderr, BackgroundLog):
        factory = background_logger_factory(stderr)
        stderr.told = lambda lines: _line(rendering, "log lines lost: they could not be written", lines=lines)
        stderr.summaries = lambda: [
            _line(rendering, "log lines left out: too many alike", lines=lines, line=event, line_level=of_level)
            for event, of_level, lines in limit.left_out(at_once=stderr.is_closing)
        ]
    structlog.configure(
        processors=[
            _bounded,
            *([trace_log_line, _Above(number)] if traced else ()),
            limit,
            structlog.contextvars.merge_contextvars,
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(min(number, logging.INFO) if traced else number),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )


def _rendering(log_format: str, *, colors: bool) -> list[Any]:
    """The processors that turn a line's fields into text."""
    is_json = log_format == "json"
    shared = [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=is_json)]
    if is_json:
        # Local variables could hold the contents of requests.
        tracebacks = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
        return [*shared, tracebacks, _bounded_traceback, structlog.processors.JSONRenderer()]
    console = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return [*shared, structlog.processors.format_exc_info, _printable, console]


def _line(rendering: list[Any], event: str, **fields: object) -> str:
    """A line of our own, which no limit drops."""
    made: Any = {"event": event, **fields}
    for processor in rendering:
        made = processor(None, "warning", made)
    return f"{made}\n"


def _bounded(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor that bounds the length of everything in a line: parts of it may come from strangers."""
    return {name: value if name in _UNTOUCHED else _bounded_value(value) for name, value in event.items()}


def _bounded_traceback(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor that bounds an exception already rendered as a value."""
    if "exception" in event:
        event["exception"] = _bounded_value(event["exception"])
    return event


def _bounded_value(value: object, depth: int = 0) -> object:
    match value:
        case bool() | int() | float() | None:
            return value
        case str():
            return _cut(value)
        case list() | tuple() if depth < 6:
            return list(_few([_bounded_value(item, depth + 1) for item in value[:MAX_ITEMS]], len(value)))
        case dict() if depth < 6:
            few = list(value.items())[:MAX_ITEMS]
            return {_cut(str(name)): _bounded_value(item, depth + 1) for name, item in few}
        case _:
            return _cut(repr(value))


def _cut(text: str) -> str:
    if len(text) > _longest_text:
        count_shortened_text()
    return cut(text, limit=_longest_text)


def _few(items: list[object], count: int) -> Iterator[object]:
    yield from items
    if count > len(items):
        yield f"… ({count - len(items)} more)"


def _printable(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor that escapes control characters, so that a line can neither command the terminal nor fake another
    line.
    """
    printable: dict[str, Any] = {}
    for name, value in event.items():
        if name in _TRACEBACKS and isinstance(value, str):
            lines = escaped_lines(cut(value, limit=MAX_TRACEBACK)).splitlines()
            printable[name] = "\n".join(f"    {line}" for line in lines)
        elif isinstance(value, str):
            printable[escaped(name)] = escaped(value, limit=len(value))
        else:
            printable[escaped(name)] = value
    return printable


class _Above:
    """A processor that passes lines of one level and above."""

    def __init__(self, level: int) -> None:
        self._level = level

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if logging.getLevelNamesMapping()[method.upper()] < self._level:
            raise structlog.DropEvent
        return event
