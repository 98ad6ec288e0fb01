"""A KRaft quorum on Trio, for embedding: the public names, each imported from its module when it is first used.

Lazy, so that `import kraft_trio.protocol...` brings in the pure rules and nothing else: no Trio, no files.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraft_trio.actors.election.leadership import Term
    from kraft_trio.application.latest_by_key import LatestByKey
    from kraft_trio.application.serde import MsgpackSerde, RawSerde, Serde
    from kraft_trio.application.state_machine import BatchStateMachine, Committed, StateMachine, StateSnapshots
    from kraft_trio.background_log import BackgroundLog, background_logger_factory
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
    from kraft_trio.config import LoadedConfig, NodeConfig, load_config, parse_config
    from kraft_trio.environment import Environment
    from kraft_trio.errors import (
        AlreadyLockedError,
        BadRecordError,
        ClientClosedError,
        CommandFailed,
        ConfigError,
        CorruptLogError,
        DiskFullError,
        EncodeError,
        KraftError,
        NetworkError,
        NodeClosedError,
        NotAppendedError,
        NotLeaderError,
        OffsetOutOfRangeError,
        OutcomeUnknownError,
        ProtocolError,
        RecordTooLargeError,
        RefusedError,
        RequestTooOldError,
        ResultLostError,
        SerdeError,
        StorageError,
        StorageFailure,
        UnsupportedVersionError,
    )
    from kraft_trio.formatting import ensure_formatted, first_voter, format_node, random_uuid
    from kraft_trio.messages import QuorumView, Staleness
    from kraft_trio.metrics.node_metrics import NodeMetrics
    from kraft_trio.node import Node
    from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
    from kraft_trio.protocol.voter_set import Voter, VoterSet
    from kraft_trio.running import open_node, run_node
    from kraft_trio.storage.batches.batch import NewRecord, Record
    from kraft_trio.wire.error_codes import ErrorCode
else:
    _MODULE_OF = {
        name: module
        for module, names in {
            "background_log": "BackgroundLog background_logger_factory",
            "client.admin": "AdminClient VoterChangeError",
            "client.log_client": "LogClient",
            "client.quorum_description": (
                "FeatureLevels FeatureMetadata NodeView NoLeader QuorumDescription ReplicaState"
            ),
            "client.record_reader": "RecordReader",
            "client.replica_snapshots": "ReplicaSnapshot ReplicaSnapshots",
            "config": "LoadedConfig NodeConfig load_config parse_config",
            "environment": "Environment",
            "errors": (
                "AlreadyLockedError BadRecordError ClientClosedError CommandFailed ConfigError CorruptLogError "
                "DiskFullError EncodeError KraftError NetworkError NodeClosedError NotAppendedError NotLeaderError "
                "OffsetOutOfRangeError OutcomeUnknownError ProtocolError RecordTooLargeError RefusedError "
                "RequestTooOldError ResultLostError SerdeError StorageError StorageFailure UnsupportedVersionError"
            ),
            "formatting": "ensure_formatted first_voter format_node random_uuid",
            "application.latest_by_key": "LatestByKey",
            "messages": "QuorumView Staleness",
            "metrics.node_metrics": "NodeMetrics",
            "actors.election.leadership": "Term",
            "node": "Node",
            "running": "open_node run_node",
            "protocol.types": "Endpoint Endpoints OffsetAndEpoch ReplicaKey VersionRange",
            "protocol.voter_set": "Voter VoterSet",
            "application.serde": "MsgpackSerde RawSerde Serde",
            "application.state_machine": "BatchStateMachine Committed StateMachine StateSnapshots",
            "storage.batches.batch": "NewRecord Record",
            "wire.error_codes": "ErrorCode",
        }.items()
        for name in names.split()
    }

    def __getattr__(name):
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "AdminClient",
    "AlreadyLockedError",
    "BackgroundLog",
    "BadRecordError",
    "BatchStateMachine",
    "ClientClosedError",
    "CommandFailed",
    "Committed",
    "ConfigError",
    "CorruptLogError",
    "DiskFullError",
    "EncodeError",
    "Endpoint",
    "Endpoints",
    "Environment",
    "ErrorCode",
    "FeatureLevels",
    "FeatureMetadata",
    "KraftError",
    "LatestByKey",
    "LoadedConfig",
    "LogClient",
    "MsgpackSerde",
    "NetworkError",
    "NewRecord",
    "NoLeader",
    "Node",
    "NodeClosedError",
    "NodeConfig",
    "NodeMetrics",
    "NodeView",
    "NotAppendedError",
    "NotLeaderError",
    "OffsetAndEpoch",
    "OffsetOutOfRangeError",
    "OutcomeUnknownError",
    "ProtocolError",
    "QuorumDescription",
    "QuorumView",
    "RawSerde",
    "Record",
    "RecordReader",
    "RecordTooLargeError",
    "RefusedError",
    "ReplicaKey",
    "ReplicaSnapshot",
    "ReplicaSnapshots",
    "ReplicaState",
    "RequestTooOldError",
    "ResultLostError",
    "Serde",
    "SerdeError",
    "Staleness",
    "StateMachine",
    "StateSnapshots",
    "StorageError",
    "StorageFailure",
    "Term",
    "UnsupportedVersionError",
    "VersionRange",
    "Voter",
    "VoterChangeError",
    "VoterSet",
    "background_logger_factory",
    "ensure_formatted",
    "first_voter",
    "format_node",
    "load_config",
    "open_node",
    "parse_config",
    "random_uuid",
    "run_node",
]
