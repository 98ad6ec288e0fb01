"""How well a replica keeps up with its leader."""

from __future__ import annotations

import enum

import attrs


class Health(enum.Enum):
    """Only a replica that is UP takes part in the next commit."""

    UP = "up"
    LAGGING = "lagging"
    """The replica fetches, but has not held the leader's whole log for longer than the fetch timeout."""
    OFFLINE = "offline"
    """The replica has not fetched for longer than the fetch timeout."""


@attrs.frozen
class ReplicaHealth:
    """The health of one replica, and the reason in words."""

    status: Health
    reason: str = ""

    @property
    def is_up(self) -> bool:
        return self.status is Health.UP
