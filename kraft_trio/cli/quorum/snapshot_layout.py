"""Layout of `kraft metadata-quorum describe --snapshots`: each node's view of its own log and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kraft_trio.cli.quorum.quorum_layout import human_time
from kraft_trio.cli.terminal.each_node import Told, ask_each, endpoints_of_voters
from kraft_trio.cli.terminal.json_option import id_fields
from kraft_trio.cli.terminal.layout import table
from kraft_trio.cli.terminal.output import field
from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.client.replica_snapshots import ReplicaSnapshot, ReplicaSnapshots
from kraft_trio.errors import KraftError
from kraft_trio.protocol.types import Endpoint, directory_id_to_text

_COLUMNS = (
    "NodeId",
    "Endpoint",
    "LogStartOffset",
    "LogEnd",
    "LogBytes",
    "Snapshots",
    "Newest",
    "NewestBytes",
    "NewestCovers",
    "StateMachine",
)


async def snapshots_of_all(client: AdminClient, named: Sequence[Endpoint], timeout_ms: int) -> Told:
    """Ask the given nodes and the voters that the leader knows; without a leader, only the given nodes."""
    quorum = await client.describe_metadata_quorum(timeout_ms)
    nodes = list(named)
    if isinstance(quorum, QuorumDescription):
        nodes += endpoints_of_voters(quorum)
    return await ask_each(nodes, lambda node: client.describe_snapshots(node, timeout_ms))


def snapshot_fields(told: Told) -> list[dict[str, Any]]:
    """One JSON object per node.  Offsets are exclusive ends, except for the log's start."""
    return [_fields(node, answer) for node, answer in _by_id(told)]


def snapshot_text(told: Told, *, human_readable: bool = False) -> str:
    """The table, followed by the nodes that did not answer."""
    time: Callable[[int], str] = human_time if human_readable else str
    rows, silent = [_COLUMNS], []
    for node, answer in _by_id(told):
        if isinstance(answer, KraftError):
            silent.append(field(f"{node}: {str(answer).removeprefix(f'{node}: ')}"))
            continue
        newest = answer.snapshots[-1] if answer.snapshots else None
        rows.append(
            (
                str(answer.key.id),
                str(node),
                str(answer.log_start_offset),
                str(answer.log_end),
                str(answer.log_size_in_bytes),
                str(len(answer.snapshots)),
                *(("-", "-", "-") if newest is None else _told_newest(newest, time)),
                "yes" if answer.has_state_machine else "no",
            )
        )
    return "\n".join([*([table(rows)] if len(rows) > 1 else []), *silent])


def _told_newest(newest: ReplicaSnapshot, time: Callable[[int], str]) -> tuple[str, str, str]:
    return str(newest.snapshot_id), str(newest.size_in_bytes), time(newest.timestamp_ms)


def _by_id(told: Told) -> list[tuple[Endpoint, ReplicaSnapshots | KraftError]]:
    """Sorted by node id, with the silent nodes last."""

    def place(item: tuple[Endpoint, ReplicaSnapshots | KraftError]) -> tuple[bool, int]:
        answer = item[1]
        return isinstance(answer, KraftError), answer.key.id if isinstance(answer, ReplicaSnapshots) else 0

    return sorted(told.items(), key=place)


def _fields(node: Endpoint, answer: ReplicaSnapshots | KraftError) -> dict[str, Any]:
    if isinstance(answer, KraftError):
        return {"endpoint": str(node), "problem": str(answer).removeprefix(f"{node}: ")}
    return {
        "endpoint": str(node),
        "nodeId": answer.key.id,
        "directoryId": directory_id_to_text(answer.key.directory_id),
        "stateMachine": answer.has_state_machine,
        "logStartOffset": answer.log_start_offset,
        "logEnd": id_fields(answer.log_end),
        "logBytes": answer.log_size_in_bytes,
        "highWatermark": answer.high_watermark,
        "snapshots": [
            {
                "snapshotId": id_fields(snapshot.snapshot_id),
                "bytes": snapshot.size_in_bytes,
                "lastContainedLogTimestamp": snapshot.timestamp_ms,
            }
            for snapshot in answer.snapshots
        ],
    }
