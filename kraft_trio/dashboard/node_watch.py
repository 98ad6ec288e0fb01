"""What one node of a quorum told last, and since when it has told nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from kraft_trio.client.claims import Told
from kraft_trio.protocol.types import Endpoint


@attrs.define
class NodeWatch:
    """The answers of the node at one endpoint.  Written by the task that asks it, in one step each."""

    endpoint: Endpoint
    newest: Told | None = None
    """Its newest answer or failure to answer.  None until the first."""
    told: Told | None = None
    """The newest real answer, however old."""
    told_at_s: float | None = None
    """When it came, by Trio's clock."""
    silent_since_s: float | None = None
    """When the node first failed to answer after that."""

    def heard(self, told: Told, now_s: float) -> None:
        """Take an answer, or a failure to answer."""
        if told.claim.problem is None:
            self.newest = self.told = told
            self.told_at_s, self.silent_since_s = now_s, None
            return
        if self.silent_since_s is None:
            self.silent_since_s = now_s
        if self.told is not None:  # what it said last stays true of its name and its disk
            before = self.told.claim
            told = attrs.evolve(
                told,
                claim=attrs.evolve(
                    told.claim,
                    node_id=before.node_id,
                    free_bytes=before.free_bytes,
                    certificate_expires_ms=before.certificate_expires_ms,
                ),
            )
        self.newest = told

    @property
    def node_id(self) -> int | None:
        """The id that the node told."""
        return None if self.told is None else self.told.claim.node_id

    @property
    def status(self) -> Mapping[str, Any]:
        """The status of its newest real answer, however old; empty if it told none."""
        return {} if self.told is None else self.told.status

    def age_ms(self, now_s: float) -> int | None:
        """The age of its newest real answer, or None if there is none."""
        return None if self.told_at_s is None else round((now_s - self.told_at_s) * 1000)
