"""Asking one node for a description of its log and snapshots, or for a new snapshot."""

from __future__ import annotations

import attrs

from kraft_trio.client.connecting import ask
from kraft_trio.errors import RefusedError, UnsupportedVersionError
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch, ReplicaKey
from kraft_trio.wire.api import REPLICA_SNAPSHOTS
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshot, ReplicaSnapshotsRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode

__all__ = ["ReplicaSnapshot", "ReplicaSnapshots", "ask_for_snapshots"]


@attrs.frozen
class ReplicaSnapshots:
    """A replica's log and snapshots.  Offsets are exclusive ends but for the start; -1 for what is not known."""

    endpoint: Endpoint
    """The endpoint at which the node was asked."""
    key: ReplicaKey
    has_state_machine: bool
    """A node without a state machine takes no snapshots; it only has those that it fetched from a leader."""
    log_start_offset: int
    log_end: OffsetAndEpoch
    log_size_in_bytes: int
    """The size of the segments, without snapshots."""
    high_watermark: int
    snapshots: tuple[ReplicaSnapshot, ...]
    """Oldest first.  As far as the node knows, each is whole."""
    took_ms: int = -1
    """The duration of the requested snapshot, or -1 if the newest one was as new as the state."""


async def ask_for_snapshots(
    connection: Connection, endpoint: Endpoint, request: ReplicaSnapshotsRequest, timeout_ms: int
) -> ReplicaSnapshots:
    """Raises RefusedError, NetworkError, and UnsupportedVersionError for a node of Apache Kafka."""
    try:
        told = await ask(connection, REPLICA_SNAPSHOTS, request, timeout_ms)
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(
            f"{endpoint}: it does not report its own snapshots, as nodes of Apache Kafka's do not"
        ) from error
    if told.error != ErrorCode.none:
        raise RefusedError(f"{endpoint}: {told.error.name.upper()}: {told.error_message or 'no reason given'}")
    return ReplicaSnapshots(
        endpoint=endpoint,
        key=told.node,
        has_state_machine=told.has_state_machine,
        log_start_offset=told.log_start_offset,
        log_end=told.log_end,
        log_size_in_bytes=told.log_size_in_bytes,
        high_watermark=told.high_watermark,
        snapshots=told.snapshots,
        took_ms=told.took_ms,
    )
