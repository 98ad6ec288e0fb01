"""Where a follower asks its leader: first where the leader says that it listens, then where others have it.

A leader may announce an address where nobody listens (`advertised.listeners`), while the log or the configuration has
the right one.  Without the others, its followers would elect the next leader, and the one after that.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kraft_trio.protocol.types import Endpoint


@attrs.define
class LeaderAddresses:
    """The addresses of one leader that have failed since it last answered."""

    _failed: set[Endpoint] = attrs.field(factory=set, init=False)

    def next(self, known: Iterable[Endpoint | None]) -> Endpoint | None:
        """The first of the known addresses that has not failed, or the first of all; None if none is known."""
        candidates = [endpoint for endpoint in known if endpoint is not None]
        return next((one for one in candidates if one not in self._failed), candidates[0] if candidates else None)

    def failed(self, endpoint: Endpoint) -> None:
        """The leader did not answer there."""
        self._failed.add(endpoint)

    def has_another(self, known: Iterable[Endpoint | None]) -> bool:
        """Whether a known address that has not failed is left.  Otherwise the next round begins."""
        if any(endpoint is not None and endpoint not in self._failed for endpoint in known):
            return True
        self._failed.clear()
        return False

    def answered(self) -> None:
        self._failed.clear()
