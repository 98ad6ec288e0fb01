"""Layouts of `kraft metadata-quorum describe`: those of the examples in KIP-853 and KIP-836, or JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kraft_trio.cli.terminal.layout import labelled, table
from kraft_trio.client.quorum_description import UNKNOWN, NoLeader, QuorumDescription, ReplicaState
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_to_text

_COLUMNS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")


def status_fields(quorum: QuorumDescription) -> dict[str, Any]:
    """The status as a JSON value.  Offsets are exclusive; -1 means unknown.

    While a voter change is uncommitted, it includes the committed voters and the difference (KIP-853 "describe
    --status").  During a reassignment it includes the target voters and what the leader is doing (KIP-642).
    """
    return {
        "clusterId": quorum.cluster_id,
        "leaderId": quorum.leader_id,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "maxFollowerLag": quorum.max_follower_lag(),
        "maxFollowerLagTimeMs": quorum.max_follower_lag_time_ms(),
        "currentVoters": [_replica_fields(quorum, state) for state in quorum.voters],
        "currentObservers": [_replica_fields(quorum, state) for state in quorum.observers],
        **_uncommitted_fields(quorum),
        **_reassignment_fields(quorum),
    }


def status_text(quorum: QuorumDescription) -> str:
    """The status, one field per line."""
    lines = []
    for name, value in status_fields(quorum).items():
        text = json.dumps(value) if isinstance(value, list) else "unknown" if value is None else str(value)
        lines.append(labelled(f"{name[0].upper()}{name[1:]}", text))
    return "\n".join(lines)


def replication_fields(quorum: QuorumDescription) -> list[dict[str, Any]]:
    """One JSON object per replica: the leader, the other voters, the observers."""
    rows = []
    for state, status in _by_status(quorum):
        rows.append(
            {
                "nodeId": state.key.id,
                "directoryId": directory_id_to_text(state.key.directory_id),
                "logEndOffset": state.log_end_offset,
                "lag": quorum.lag(state),
                "lastFetchTimestamp": state.last_fetch_timestamp_ms,
                "lastCaughtUpTimestamp": state.last_caught_up_timestamp_ms,
                "status": status,
            }
        )
    return rows


def replication_text(quorum: QuorumDescription, *, now_ms: int | None = None) -> str:
    """The table of replicas.  Timestamps are ms since 1970, or how long ago that was at `now_ms` (KIP-836)."""
    time: Callable[[int], str] = str if now_ms is None else functools.partial(_age, now_ms=now_ms)
    rows = [_COLUMNS]
    for fields in replication_fields(quorum):
        *numbers, fetched, caught_up, status = fields.values()
        rows.append((*map(str, numbers), time(fetched), time(caught_up), status))
    return table(rows)


def no_leader_fields(answer: NoLeader) -> dict[str, Any]:
    """The nodes' answers as a JSON value, when there is no leader."""
    return {
        "clusterId": answer.cluster_id,
        "leaderId": UNKNOWN,
        "nodes": [
            {
                "endpoint": str(view.endpoint),
                "reachable": view.problem is None,
                "problem": view.problem,
                "leaderId": UNKNOWN if view.leader_id is None else view.leader_id,
                "leaderEpoch": UNKNOWN if view.leader_epoch is None else view.leader_epoch,
            }
            for view in answer.views
        ],
    }


def no_leader_text(answer: NoLeader) -> str:
    """The nodes' answers in the layout of the status, when there is no leader."""
    lines = [
        labelled("ClusterId", answer.cluster_id or "unknown"),
        labelled("LeaderId", "none"),
        *(labelled("Node", str(view)) for view in answer.views),
    ]
    return "\n".join(lines)


def _uncommitted_fields(quorum: QuorumDescription) -> dict[str, Any]:
    if not quorum.committed_voters:
        return {}
    committed = {state.key for state in quorum.committed_voters}
    current = {state.key for state in quorum.voters}
    steps = [
        *(f"add {key}" for key in sorted(current - committed)),
        *(f"remove {key}" for key in sorted(committed - current)),
    ]
    return {
        "committedVoters": [_replica_fields(quorum, state) for state in quorum.committed_voters],
        "uncommittedVoterChange": ", ".join(steps) or "update",
    }


def _reassignment_fields(quorum: QuorumDescription) -> dict[str, Any]:
    if not quorum.target_voters:
        return {}
    return {
        "targetVoters": [_replica_fields(quorum, state) for state in quorum.target_voters],
        "reassignmentStatus": quorum.reassignment_status,
    }


def _by_status(quorum: QuorumDescription) -> list[tuple[ReplicaState, str]]:
    leader = quorum.leader
    return [
        *([] if leader is None else [(leader, "Leader")]),
        *((state, "Follower") for state in quorum.voters if state is not leader),
        *((state, "Observer") for state in quorum.observers if state is not leader),
    ]


def _replica_fields(quorum: QuorumDescription, state: ReplicaState) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": state.key.id}
    if state.key.directory_id != NO_DIRECTORY_ID:
        fields["directoryId"] = directory_id_to_text(state.key.directory_id)
    endpoints = quorum.endpoints_of(state.key)
    if endpoints:
        fields["endpoints"] = [f"{name}://{endpoint}" for name, endpoint in endpoints]
    return fields


def _age(timestamp_ms: int, *, now_ms: int) -> str:
    """As Kafka's tool shows it.  Negative if the leader's clock is ahead."""
    return str(UNKNOWN) if timestamp_ms == UNKNOWN else f"{now_ms - timestamp_ms} ms ago"


def human_time(timestamp_ms: int) -> str:
    """As a UTC time; - if unknown."""
    if timestamp_ms == UNKNOWN:
        return "-"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
