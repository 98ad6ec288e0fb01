"""Notices on the leader that an old copy of a voter's directory runs, and remembers it.

Such a voter lacks records that it had acknowledged, and no longer knows how it voted.  Its directory id is the same, so
no other node can tell.  What a voter acknowledged is remembered over the leaderships of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from kraft_trio.logs import get_logger
from kraft_trio.protocol.acknowledged_end import CameBack
from kraft_trio.protocol.types import ReplicaKey

log = get_logger(__name__)

OLD_COPY: Final = "an old copy of a voter's directory runs"
CAUGHT_UP: Final = "restored voter has caught up"

WHAT_TO_DO: Final = (
    "never start a copy of a voter's directory: if its disk was lost, start its node with a blank one, and replace the "
    "voter (kraft metadata-quorum replace)"
)
MAX_TOLD: Final = 64
"""How many voters that came back are remembered; beyond it, the oldest is forgotten."""


@attrs.define
class RestoredVoter:
    """A voter that came back without records that it had acknowledged.  Offsets are exclusive ends."""

    key: ReplicaKey
    acknowledged: int
    came_back_at: int
    at_ms: int
    """When this was noticed, in ms since 1970."""
    has_caught_up: bool = False


class RestoredVoters:
    """The voters that came back with an old copy.  LeaderReplication writes it; the node's status and metrics read."""

    def __init__(self, wall_clock_ms: Callable[[], int]) -> None:
        self._wall_clock_ms = wall_clock_ms
        self._kept: dict[ReplicaKey, int] = {}
        self._told: dict[ReplicaKey, RestoredVoter] = {}
        self.count = 0
        """How often a voter came back like that, since the start."""

    @property
    def told(self) -> tuple[RestoredVoter, ...]:
        """The last return of each voter, oldest first."""
        return tuple(self._told.values())

    @property
    def acknowledged(self) -> Mapping[ReplicaKey, int]:
        """The committed ends (exclusive) that voters acknowledged in earlier leaderships of this process."""
        return self._kept

    def keep(self, acknowledged: Mapping[ReplicaKey, int]) -> None:
        """Remember at the end of a leadership what its voters acknowledged and is committed, instead of before."""
        self._kept = dict(acknowledged)

    def came_back(self, key: ReplicaKey, found: CameBack) -> None:
        self.count += 1
        self._told.pop(key, None)
        if len(self._told) >= MAX_TOLD:
            del self._told[next(iter(self._told))]
        self._told[key] = RestoredVoter(key, found.acknowledged, found.at, self._wall_clock_ms())
        log.error(
            OLD_COPY,
            voter=str(key),
            acknowledged=found.acknowledged,
            came_back_at=found.at,
            what_to_do=WHAT_TO_DO,
        )

    def caught_up(self, key: ReplicaKey, offset: int) -> None:
        known = self._told.get(key)
        if known is not None and not known.has_caught_up:
            known.has_caught_up = True
            log.info(CAUGHT_UP, voter=str(key), offset=offset)
