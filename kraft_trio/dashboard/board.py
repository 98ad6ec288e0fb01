"""The quorum as the page shows it, as JSON: docs/reference/status.md describes the fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from kraft_trio.client.claims import newest_description
from kraft_trio.client.explanation import explanation_fields
from kraft_trio.client.quorum_description import UNKNOWN, QuorumDescription, ReplicaState
from kraft_trio.dashboard.node_watch import NodeWatch
from kraft_trio.dashboard.quorum_watch import QuorumWatch
from kraft_trio.diagnosis.quorum_situation import LeaderReport, Situation, survivals
from kraft_trio.diagnosis.survival import Survival
from kraft_trio.protocol.types import directory_id_to_text


def board_of(watch: QuorumWatch, source: Mapping[str, Any]) -> dict[str, Any]:
    """All of it, from what the nodes told last.  `source` says who has asked them."""
    situation = watch.situation()
    now_s = trio.current_time()
    by_endpoint = {str(one.endpoint): one for one in watch.watches}
    fields = explained_fields(situation)
    for claim in fields["claims"]:
        claim.update(_of_node(by_endpoint[claim["endpoint"]], now_s))
    by_id = {one.node_id: one for one in watch.watches if one.node_id is not None}
    return {
        "atMs": watch.wall_clock_ms(),
        "source": dict(source),
        **fields,
        "voters": _voters(situation, newest_description(watch.told()), by_id, now_s),
        "observers": _observers(situation, newest_description(watch.told())),
    }


def explained_fields(situation: Situation) -> dict[str, Any]:
    """What `kraft metadata-quorum explain` tells, and what each voter set survives."""
    clusters = [claim.cluster_id for claim in situation.answers if claim.cluster_id is not None]
    return {
        "clusterId": next(iter(clusters), None),
        "epoch": None if situation.epoch < 0 else situation.epoch,
        "leaderId": situation.leader_id,
        **explanation_fields(situation),
        "survival": [survival_fields(survival) for survival in survivals(situation)],
        "change": None if situation.report is None else _change(situation.report),
    }


def survival_fields(survival: Survival) -> dict[str, Any]:
    return {
        "voters": survival.voter_ids,
        "up": survival.up_ids,
        "majority": survival.majority,
        "spare": survival.spare,
    }


def _change(report: LeaderReport) -> dict[str, Any] | None:
    """A voter change that is not committed, or a reassignment that is under way."""
    if not report.committed_voter_ids and not report.target_voter_ids:
        return None
    return {
        "before": sorted(report.committed_voter_ids) or None,
        "now": report.voter_ids,
        "target": sorted(report.target_voter_ids) or None,
        "status": report.reassignment_status,
    }


def _of_node(watch: NodeWatch, now_s: float) -> dict[str, Any]:
    """What a node told last, with the age of that; a silent node keeps what it claimed before."""
    claim = None if watch.told is None else watch.told.claim
    directory_id = None if claim is None else claim.directory_id
    return {
        "ageMs": watch.age_ms(now_s),
        "role": "broker" if claim is not None and claim.is_broker else _text(watch.status.get("role")),
        "directoryId": None if directory_id is None else directory_id_to_text(directory_id),
        "last": None
        if claim is None
        else {"epoch": claim.epoch, "leaderId": claim.leader_id, "voters": claim.voter_ids},
    }


def _voters(
    situation: Situation, quorum: QuorumDescription | None, watches: Mapping[int, NodeWatch], now_s: float
) -> list[dict[str, Any]]:
    """Each voter as its leader sees it, and what it reports about its machine."""
    states: Sequence[ReplicaState] = () if quorum is None else quorum.voters
    by_id = {state.key.id: state for state in states}
    health = {} if situation.report is None else {voter.id: voter.health for voter in situation.report.voters}
    rows = []
    for voter_id in situation.voter_ids:
        state, watch, its = by_id.get(voter_id), watches.get(voter_id), health.get(voter_id)
        rows.append(
            {
                "id": voter_id,
                "isLeader": quorum is not None and voter_id == quorum.leader_id,
                "directoryId": None if state is None else directory_id_to_text(state.key.directory_id),
                "health": None if its is None else its.status.value,
                "reason": None if its is None else its.reason,
                **_progress(quorum, state),
                "ageMs": None if watch is None else watch.age_ms(now_s),
                "isSilent": watch is None or watch.silent_since_s is not None,
                "vitals": _vitals(watch),
            }
        )
    return rows


def _observers(situation: Situation, quorum: QuorumDescription | None) -> list[dict[str, Any]]:
    """Who fetches and does not vote, as the leader sees it, with what Kafka's controllers say that it is."""
    if quorum is None or situation.report is None:
        return []
    brokers = () if situation.cluster is None else situation.cluster.brokers
    kinds = {id: "controller" for claim in situation.answers for id in claim.registered_ids or ()}
    kinds |= {broker.id: "fenced broker" if broker.is_fenced else "broker" for broker in brokers}
    fetching = {(one.id, one.directory_id) for one in situation.report.observers if one.fetches}
    return [
        {
            "id": state.key.id,
            "directoryId": directory_id_to_text(state.key.directory_id),
            "kind": kinds.get(state.key.id),
            "fetches": (state.key.id, state.key.directory_id) in fetching,
            **_progress(quorum, state),
        }
        for state in quorum.observers
    ]


def _progress(quorum: QuorumDescription | None, state: ReplicaState | None) -> dict[str, Any]:
    if quorum is None or state is None:
        return {"logEndOffset": None, "lag": None, "lastContactMs": None}
    is_known = UNKNOWN not in (state.last_fetch_timestamp_ms, quorum.now_ms)
    return {
        "logEndOffset": _known(state.log_end_offset),
        "lag": _known(quorum.lag(state)),
        "lastContactMs": max(0, quorum.now_ms - state.last_fetch_timestamp_ms) if is_known else None,
    }


def _vitals(watch: NodeWatch | None) -> dict[str, float | None]:
    """The vital signs that are numbers; empty if the node tells none."""
    told = {} if watch is None else watch.status.get("vitals")
    if not isinstance(told, dict):
        return {}
    return {
        str(name): value if isinstance(value, int | float) and not isinstance(value, bool) else None
        for name, value in list(told.items())[:16]
    }


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value


def _text(value: object) -> str | None:
    return value[:32] if isinstance(value, str) else None
