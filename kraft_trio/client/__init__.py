"""Clients of a quorum: one administers it, the other writes and reads its log."""

from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.log_client import LogClient
from kraft_trio.client.quorum_description import (
    FeatureLevels,
    FeatureMetadata,
    NodeView,
    NoLeader,
    QuorumDescription,
    ReplicaState,
)
from kraft_trio.client.record_reader import RecordReader
from kraft_trio.client.replica_snapshots import ReplicaSnapshot, ReplicaSnapshots
from kraft_trio.errors import OffsetOutOfRangeError, RefusedError

__all__ = [
    "AdminClient",
    "FeatureLevels",
    "FeatureMetadata",
    "LogClient",
    "NoLeader",
    "NodeView",
    "OffsetOutOfRangeError",
    "QuorumDescription",
    "RecordReader",
    "RefusedError",
    "ReplicaSnapshot",
    "ReplicaSnapshots",
    "ReplicaState",
    "VoterChangeError",
]
