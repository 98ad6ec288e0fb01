"""Many impossible voter changes at once."""

from __future__ import annotations

from uuid import UUID

from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.wire.api import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UPDATE_FEATURES
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.apis.update_features import FeatureUpdate, UpdateFeaturesRequest, UpgradeType
from scripts.attacks.arena import LISTENERS, Arena, frame_of

SLOW_NAME = "x" * 60 + "." + "y" * 60 + ".invalid"
HOSTS = ("", "0.0.0.0", "::", "127.0.0.1", SLOW_NAME, "a" * 300, "..", "\x00", "\x1b[2J", "é" * 40)
NOBODY = UUID(int=1234)


def play(arena: Arena) -> None:
    """On both listeners; a change that waits for its voter is not waited for."""
    for listener in LISTENERS:
        for frame in frames(arena.quorum.cluster_id):
            for node in arena.nodes[: arena.count(3, 1)]:
                arena.send(frame, listener, node, seconds=0.5)


def frames(cluster_id: str) -> list[bytes]:
    adding = [
        AddRaftVoterRequest(
            id_of_cluster, timeout_ms, voter_id, NOBODY, Endpoints({"CONTROLLER": Endpoint(host, port)})
        )
        for id_of_cluster in (cluster_id, None)
        for host in HOSTS
        for port in (0, 1, 65535)
        for timeout_ms, voter_id in ((100, 77), (2**31 - 1, -1), (-1, 2**31 - 1))
    ]
    removing = [RemoveRaftVoterRequest(cluster_id, voter_id, NOBODY) for voter_id in (-1, 1, 2, 3, 77)]
    updating = [
        UpdateFeaturesRequest(updates, timeout_ms=timeout_ms)
        for timeout_ms in (-1, 0, 2**31 - 1)
        for updates in (
            (),
            (FeatureUpdate("kraft.version", 0, UpgradeType.UNSAFE_DOWNGRADE),),
            (FeatureUpdate("kraft.version", 32767),),
            (FeatureUpdate("kraft.version", -1),),
            (FeatureUpdate("\x1b[2J" * 50, 1),),
            (FeatureUpdate("kraft.version", 1), FeatureUpdate("kraft.version", 0)),
        )
    ]
    return [
        *(frame_of(ADD_RAFT_VOTER, request) for request in adding),
        *(frame_of(REMOVE_RAFT_VOTER, request) for request in removing),
        *(frame_of(UPDATE_FEATURES, request) for request in updating),
    ]
