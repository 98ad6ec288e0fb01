"""The table of staged situations: what is broken, what `explain` must say, and who has the only copy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from kraft_trio.simulation import Setup
from tests.situations.site import Site

Play = Callable[[Site], Awaitable[None]]


@attrs.frozen
class Staged:
    """One situation.  `play` breaks the cluster, has `explain` say the codes, and follows its advice."""

    name: str
    setup: Setup
    play: Play
    keeps: tuple[int, ...]
    """The nodes that advice must not stop, start or format, because nobody else may have the records."""
    writes: bool
    """Whether values are written before, which all voters must have in the end."""
    is_repaired: bool
    """Whether the advice makes the quorum whole again; some situations only call for patience or a human."""


STAGED: Final[dict[str, Staged]] = {}


def staged(
    name: str, *, keeps: tuple[int, ...] = (), writes: bool = True, is_repaired: bool = True, **setup: Any
) -> Callable[[Play], Play]:
    """Add a row to the table.  The other fields are those of Setup."""

    def add(play: Play) -> Play:
        assert name not in STAGED, name
        STAGED[name] = Staged(name, Setup(**setup), play, keeps, writes, is_repaired)
        return play

    return add
