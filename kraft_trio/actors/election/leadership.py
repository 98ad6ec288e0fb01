"""One stay of this node in the role of leader, as the application sees it: a term that cancels its block at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import trio


@attrs.define(eq=False)
class Leadership:
    """One stay as leader.  Election makes it, and ends it before any task of the epoch hears of the end."""

    epoch: int
    epoch_start_offset: int
    """The offset of the epoch's first record."""
    is_over: bool = attrs.field(init=False, default=False)
    _scopes: dict[trio.CancelScope, None] = attrs.field(init=False, factory=dict)

    def end(self) -> None:
        """Cancel all blocks that last as long as the leadership.  May be called again."""
        self.is_over = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def while_it_lasts(self) -> Iterator[trio.CancelScope]:
        """Run a block that is cancelled when the leadership ends, at its next checkpoint if it has ended already."""
        with trio.CancelScope() as scope:
            if self.is_over:
                scope.cancel()
            self._scopes[scope] = None
            try:
                yield scope
            finally:
                del self._scopes[scope]


@attrs.define(eq=False)
class Term:
    """A leadership of this node, in the block of `Node.leadership`."""

    _leadership: Leadership
    was_interrupted: bool = attrs.field(init=False, default=False)
    """Whether the end of the leadership cancelled the block; known when the block has been left."""

    @property
    def epoch(self) -> int:
        """The epoch that this node leads, for `append(..., epoch=)`."""
        return self._leadership.epoch

    @property
    def has_ended(self) -> bool:
        """Whether the leadership has ended."""
        return self._leadership.is_over
