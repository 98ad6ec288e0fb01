"""Clients of a quorum: one that administers it, one that writes and reads its log, and what they return and raise."""

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.connecting import RefusedError
from kraft_trio.client.feature_metadata import FeatureLevels, FeatureMetadata
from kraft_trio.client.log_client import LogClient
from kraft_trio.client.quorum_description import NodeView, NoLeader, QuorumDescription, ReplicaState
from kraft_trio.client.record_reader import OffsetOutOfRangeError, RecordReader
from kraft_trio.client.replica_snapshots import ReplicaSnapshot, ReplicaSnapshots
from kraft_trio.client.voter_change import VoterChangeError

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
