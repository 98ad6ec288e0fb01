"""A node's own view of the quorum, as JSON."""

from __future__ import annotations

from typing import Any

import trio

from kraft_trio.actors.context.restored_voters import RestoredVoter
from kraft_trio.node_tree import NodeTree
from kraft_trio.protocol.types import directory_id_to_text
from kraft_trio.protocol.voter_set import Voter


def own_view(tree: NodeTree[Any]) -> dict[str, Any]:
    """Offsets are exclusive ends, except the log's start.  A leader adds each voter's lag and last contact."""
    view, log = tree.election.view.value, tree.log
    role = type(view.role).__name__.lower()
    is_voter = log.voters.voters.is_voter(tree.key)
    high_watermark = log.high_watermark
    return {
        "clusterId": tree.cluster_id,
        "nodeId": tree.key.id,
        "directoryId": directory_id_to_text(tree.key.directory_id),
        "role": "observer" if role == "follower" and not is_voter else role,
        "isVoter": is_voter,
        "isWitness": tree.config.witness,
        "isController": "controller" in tree.config.process_roles,
        "bootstrapServers": [str(endpoint) for endpoint in tree.config.quorum_bootstrap_servers],
        "epoch": view.epoch,
        "leaderId": view.leader_id,
        "highWatermark": high_watermark,
        "logStartOffset": log.log_start_offset,
        "logEndOffset": log.end.offset,
        "logEndEpoch": log.end.epoch,
        "kraftVersion": view.kraft_version,
        "uncommittedVoterChange": log.voters.has_uncommitted_change(high_watermark),
        "lostRecords": tree.lost_records.dropped if role == "leader" else tree.lost_records.what,
        "deadAddress": None if tree.own_address.dead is None else str(tree.own_address.dead),
        "fetchProblem": None if role == "leader" else tree.fetch_problem.reason,
        "stateMachineProblem": _stopped(tree),
        "storeProblem": tree.machine_complaint(),
        "otherDisks": [
            {"id": key.id, "directoryId": directory_id_to_text(key.directory_id)}
            for key in tree.other_disks.among(log.voters.voters)
        ],
        "restoredVoters": [_restored(one) for one in tree.restored.told],
        "voters": [_voter(tree, voter) for voter in log.voters.voters],
    }


def _stopped(tree: NodeTree[Any]) -> str | None:
    """Why the state machine has stopped."""
    failure = None if tree.driver is None else tree.driver.failure
    return None if failure is None else str(failure)


def _restored(one: RestoredVoter) -> dict[str, Any]:
    return {
        "id": one.key.id,
        "directoryId": directory_id_to_text(one.key.directory_id),
        "acknowledged": one.acknowledged,
        "cameBackAt": one.came_back_at,
        "hasCaughtUp": one.has_caught_up,
        "atMs": one.at_ms,
    }


def _voter(tree: NodeTree[Any], voter: Voter) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": voter.id,
        "directoryId": directory_id_to_text(voter.key.directory_id),
        "endpoints": [f"{name}://{endpoint}" for name, endpoint in voter.endpoints],
    }
    progress = tree.election.progress
    if progress is None:
        return told
    if voter.id == tree.key.id:
        return {**told, "logEndOffset": tree.log.synced_end_offset, "lag": 0, "lastContactMs": 0}
    known = progress.of_voter(voter)
    if known is None:
        return {**told, "logEndOffset": None, "lag": None, "lastContactMs": None}
    return {
        **told,
        "logEndOffset": known.end_offset,
        "lag": max(0, tree.log.synced_end_offset - known.end_offset),
        "lastContactMs": round((trio.current_time() - known.last_fetch_s) * 1000),
    }
