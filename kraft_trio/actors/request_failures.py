"""Where an unexpected error in serving one request ends: with that request, unless the error is the node's own.

Storage that failed, a closed log and a broken invariant (AssertionError) are the node's: nothing it says afterwards
could be trusted.  Anything else is a bug that this request has met: it is answered UNKNOWN_SERVER_ERROR, or its
connection is closed, and everybody else is served on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

import structlog
import trio

from kraft_trio.errors import NodeClosedError, StorageError, StorageFailure

log = structlog.get_logger(__name__)

SECONDS_BETWEEN_TRACEBACKS: Final = 10.0
"""Whoever met the bug may send the same again and again."""
NODES_OWN: Final = (StorageError, StorageFailure, NodeClosedError, AssertionError)


class RequestFailedError(Exception):
    """An answer could not be made of what a request asks for; raised from the reason."""


class RequestFailures:
    """Counts and logs the errors that ended one request and no more.  One a node."""

    def __init__(self, unexpected: Callable[[Exception], object]) -> None:
        """`unexpected` is told of each; it must neither block nor fail."""
        self._unexpected = unexpected
        self.count = 0
        self._logged_at_s = -math.inf

    def note(self, error: Exception, request: str) -> None:
        """To be called in the handler of an error met in serving a request of that kind, before it is answered.

        Raises the error again where it is the node's.
        """
        if any(isinstance(leaf, NODES_OWN) for leaf in _leaves(error)):
            raise error
        self.count += 1
        now_s = trio.current_time()
        if now_s - self._logged_at_s >= SECONDS_BETWEEN_TRACEBACKS:
            self._logged_at_s = now_s
            log.error("a request met a bug", request=request, failures=self.count, exc_info=error)
        self._unexpected(error)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _leaves(member)
    else:
        yield error
