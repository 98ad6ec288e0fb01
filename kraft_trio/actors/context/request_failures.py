"""Decides whether an unexpected error ends one request or the node.

Failed storage, a closed log and a broken invariant (AssertionError) end the node, because nothing that it says
afterwards could be trusted.  Any other error is a bug that one request has met.  That request gets
UNKNOWN_SERVER_ERROR, or its connection closes, and other requests are served.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import trio

from kraft_trio.errors import NodeClosedError, StorageError, StorageFailure, leaves
from kraft_trio.logs import get_logger

log = get_logger(__name__)

SECONDS_BETWEEN_TRACEBACKS: Final = 10.0
"""Least time between two logged tracebacks, because a client may repeat its request."""
NODES_OWN: Final = (StorageError, StorageFailure, NodeClosedError, AssertionError)


class RequestFailedError(Exception):
    """The response to a request could not be encoded.  The cause is the error."""


class RequestFailures:
    """Counts and logs the errors that ended only one request.  There is one per node."""

    def __init__(self, unexpected: Callable[[Exception], object]) -> None:
        """`unexpected` is called with each error; it must neither block nor fail."""
        self._unexpected = unexpected
        self.count = 0
        self._logged_at_s = -math.inf

    def note(self, error: Exception, request: str) -> None:
        """Note an error.  Call this in the `except` block, before answering the request.

        Raises the error again if it ends the node.
        """
        if any(isinstance(leaf, NODES_OWN) for leaf in leaves(error)):
            raise error
        self.count += 1
        now_s = trio.current_time()
        if now_s - self._logged_at_s >= SECONDS_BETWEEN_TRACEBACKS:
            self._logged_at_s = now_s
            log.error("a request met a bug", request=request, failures=self.count, exc_info=error)
        self._unexpected(error)
