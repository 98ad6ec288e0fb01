"""All APIs that a node serves or that a client sends, by key."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kraft_trio.wire.apis.add_raft_voter import ADD_RAFT_VOTER
from kraft_trio.wire.apis.alter_partition_reassignments import ALTER_PARTITION_REASSIGNMENTS
from kraft_trio.wire.apis.api_versions import API_VERSIONS, ApiRange
from kraft_trio.wire.apis.begin_quorum_epoch import BEGIN_QUORUM_EPOCH
from kraft_trio.wire.apis.create_topics import CREATE_TOPICS
from kraft_trio.wire.apis.describe_cluster import DESCRIBE_CLUSTER
from kraft_trio.wire.apis.describe_log_dirs import DESCRIBE_LOG_DIRS
from kraft_trio.wire.apis.describe_quorum import DESCRIBE_QUORUM
from kraft_trio.wire.apis.discover_voters import DISCOVER_VOTERS
from kraft_trio.wire.apis.end_quorum_epoch import END_QUORUM_EPOCH
from kraft_trio.wire.apis.fetch import FETCH
from kraft_trio.wire.apis.fetch_snapshot import FETCH_SNAPSHOT
from kraft_trio.wire.apis.find_coordinator import FIND_COORDINATOR
from kraft_trio.wire.apis.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from kraft_trio.wire.apis.init_producer_id import INIT_PRODUCER_ID
from kraft_trio.wire.apis.list_offsets import LIST_OFFSETS
from kraft_trio.wire.apis.list_partition_reassignments import LIST_PARTITION_REASSIGNMENTS
from kraft_trio.wire.apis.metadata import METADATA
from kraft_trio.wire.apis.produce import PRODUCE
from kraft_trio.wire.apis.read_index import READ_INDEX
from kraft_trio.wire.apis.remove_raft_voter import REMOVE_RAFT_VOTER
from kraft_trio.wire.apis.replica_snapshots import REPLICA_SNAPSHOTS
from kraft_trio.wire.apis.sasl_authenticate import SASL_AUTHENTICATE
from kraft_trio.wire.apis.sasl_handshake import SASL_HANDSHAKE
from kraft_trio.wire.apis.transfer_leadership import TRANSFER_LEADERSHIP
from kraft_trio.wire.apis.update_features import UPDATE_FEATURES
from kraft_trio.wire.apis.update_raft_voter import UPDATE_RAFT_VOTER
from kraft_trio.wire.apis.vote import VOTE
from kraft_trio.wire.descriptor import Api

__all__ = [
    "ADD_RAFT_VOTER",
    "ALTER_PARTITION_REASSIGNMENTS",
    "APIS",
    "API_VERSIONS",
    "BEGIN_QUORUM_EPOCH",
    "CREATE_TOPICS",
    "DESCRIBE_CLUSTER",
    "DESCRIBE_LOG_DIRS",
    "DESCRIBE_QUORUM",
    "DISCOVER_VOTERS",
    "END_QUORUM_EPOCH",
    "FETCH",
    "FETCH_SNAPSHOT",
    "FIND_COORDINATOR",
    "INCREMENTAL_ALTER_CONFIGS",
    "INIT_PRODUCER_ID",
    "LIST_OFFSETS",
    "LIST_PARTITION_REASSIGNMENTS",
    "METADATA",
    "PRODUCE",
    "READ_INDEX",
    "REMOVE_RAFT_VOTER",
    "REPLICA_SNAPSHOTS",
    "SASL_AUTHENTICATE",
    "SASL_HANDSHAKE",
    "TRANSFER_LEADERSHIP",
    "UPDATE_FEATURES",
    "UPDATE_RAFT_VOTER",
    "VOTE",
    "Api",
    "advertised_ranges",
]

_ALL: Final[tuple[Api[Any, Any], ...]] = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    FIND_COORDINATOR,
    SASL_HANDSHAKE,
    API_VERSIONS,
    CREATE_TOPICS,
    INIT_PRODUCER_ID,
    SASL_AUTHENTICATE,
    DESCRIBE_LOG_DIRS,
    INCREMENTAL_ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    VOTE,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    UPDATE_FEATURES,
    FETCH_SNAPSHOT,
    DESCRIBE_CLUSTER,
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
    UPDATE_RAFT_VOTER,
    REPLICA_SNAPSHOTS,
    DISCOVER_VOTERS,
    READ_INDEX,
    TRANSFER_LEADERSHIP,
)

APIS: Final[Mapping[int, Api[Any, Any]]] = MappingProxyType({api.key: api for api in _ALL})


@functools.cache
def advertised_ranges(besides: frozenset[int] = frozenset()) -> tuple[ApiRange, ...]:
    """The version ranges for an ApiVersions response, by key, without the APIs whose keys are in `besides`."""
    return tuple(
        ApiRange(key, api.advertised_min_version, api.max_version)
        for key, api in sorted(APIS.items())
        if key not in besides
    )
