"""A KRaft quorum on Trio, for embedding: the public names, each imported from its module when it is first used.

Lazy, so that `import kraft_trio.protocol...` brings in the pure rules and nothing else: no Trio, no files.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraft_trio.client.admin import AdminClient
    from kraft_trio.client.log_client import LogClient
    from kraft_trio.config import LoadedConfig, NodeConfig, load_config, parse_config
    from kraft_trio.environment import Environment
    from kraft_trio.errors import (
        AlreadyLockedError,
        ConfigError,
        CorruptLogError,
        KraftError,
        NetworkError,
        NodeClosedError,
        NotLeaderError,
        OutcomeUnknownError,
        ProtocolError,
        RecordTooLargeError,
        StorageError,
        StorageFailure,
        UnsupportedVersionError,
    )
    from kraft_trio.formatting import first_voter, format_node, random_uuid
    from kraft_trio.messages import QuorumView
    from kraft_trio.node import Committed, Node, open_node, run_node
    from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
    from kraft_trio.protocol.voter_set import Voter, VoterSet
    from kraft_trio.serde import MsgpackSerde, RawSerde, Serde, SerdeError
    from kraft_trio.storage.batch import Record
else:
    _MODULE_OF = {
        name: module
        for module, names in {
            "client.admin": "AdminClient",
            "client.log_client": "LogClient",
            "config": "LoadedConfig NodeConfig load_config parse_config",
            "environment": "Environment",
            "errors": (
                "AlreadyLockedError ConfigError CorruptLogError KraftError NetworkError NodeClosedError NotLeaderError "
                "OutcomeUnknownError ProtocolError RecordTooLargeError StorageError StorageFailure "
                "UnsupportedVersionError"
            ),
            "formatting": "first_voter format_node random_uuid",
            "messages": "QuorumView",
            "node": "Committed Node open_node run_node",
            "protocol.types": "Endpoint Endpoints ReplicaKey",
            "protocol.voter_set": "Voter VoterSet",
            "serde": "MsgpackSerde RawSerde Serde SerdeError",
            "storage.batch": "Record",
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
    "Committed",
    "ConfigError",
    "CorruptLogError",
    "Endpoint",
    "Endpoints",
    "Environment",
    "KraftError",
    "LoadedConfig",
    "LogClient",
    "MsgpackSerde",
    "NetworkError",
    "Node",
    "NodeClosedError",
    "NodeConfig",
    "NotLeaderError",
    "OutcomeUnknownError",
    "ProtocolError",
    "QuorumView",
    "RawSerde",
    "Record",
    "RecordTooLargeError",
    "ReplicaKey",
    "Serde",
    "SerdeError",
    "StorageError",
    "StorageFailure",
    "UnsupportedVersionError",
    "Voter",
    "VoterSet",
    "first_voter",
    "format_node",
    "load_config",
    "open_node",
    "parse_config",
    "random_uuid",
    "run_node",
]
