"""Which peers are Apache Kafka's controllers."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.protocol.types import Endpoint, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.wire.apis.api_versions import ApiVersionsResponse
from kraft_trio.wire.apis.controller_registration import CONTROLLER_REGISTRATION
from kraft_trio.wire.apis.read_index import READ_INDEX

CONTROLLERS_TOPIC: Final = "__cluster_metadata"
MAX_KNOWN: Final = 1000
"""Limit for known endpoints.  Beyond it, the one that was found first is forgotten."""


class KafkaControllers:
    """Which peers are Kafka's controllers.  The node reports each connection that it makes.

    Kafka's controllers advertise ControllerRegistration and replicate `__cluster_metadata`.  Its TestRaftServer
    advertises as much, but replicates another topic.  So does a witness, which advertises ReadIndex too.
    """

    def __init__(self, topic_name: str) -> None:
        self._may_be = topic_name == CONTROLLERS_TOPIC
        self._found: dict[Endpoint, ApiVersionsResponse] = {}
        self.changed = trio.lowlevel.ParkingLot()
        """Wakes its waiters when a controller is found, or answers otherwise than before."""
        self.has_registered: bool | None = None
        """Whether an active controller has registered this witness; None before it has met one."""

    def negotiated(self, endpoint: Endpoint, versions: ApiVersionsResponse) -> None:
        """Note what a peer has answered to ApiVersions."""
        served = {api.key for api in versions.apis}
        if not self._may_be or CONTROLLER_REGISTRATION.key not in served or READ_INDEX.key in served:
            self._found.pop(endpoint, None)
            return
        was = self._found.pop(endpoint, None)
        if len(self._found) >= MAX_KNOWN:
            del self._found[next(iter(self._found))]
        self._found[endpoint] = versions
        if versions != was:
            self.changed.unpark_all()

    def versions_of(self, endpoint: Endpoint | None) -> ApiVersionsResponse | None:
        """The newest answer of the controller at that endpoint; None if none of Kafka's is known there.

        It may have started again since, as another release.  The next connection to it tells.
        """
        return None if endpoint is None else self._found.get(endpoint)

    def among(self, voters: VoterSet, own: ReplicaKey, listener_name: str) -> list[int]:
        """The ids of the other voters that are controllers of Kafka."""
        return [
            voter.id
            for voter in voters
            if voter.id != own.id and self.versions_of(voter.endpoints.get(listener_name)) is not None
        ]
