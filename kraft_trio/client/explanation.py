"""What was found out of a quorum, and what follows from it, as JSON."""

from __future__ import annotations

from typing import Any

from kraft_trio.diagnosis.quorum_findings import contradictions, findings
from kraft_trio.diagnosis.quorum_situation import Claim, Situation


def explanation_fields(situation: Situation) -> dict[str, Any]:
    """Each node's claim, with the names of what contradicts the highest epoch, and the findings."""
    return {
        "claims": [_claim(situation, claim) for claim in situation.claims],
        "findings": [
            {
                "severity": finding.severity.value,
                "code": finding.code,
                "text": finding.text,
                "command": finding.command,
            }
            for finding in findings(situation)
        ],
    }


def _claim(situation: Situation, claim: Claim) -> dict[str, Any]:
    end = claim.log_end
    return {
        "endpoint": claim.endpoint,
        "problem": claim.problem,
        "nodeId": claim.node_id,
        "clusterId": claim.cluster_id,
        "epoch": claim.epoch,
        "leaderId": claim.leader_id,
        "voters": claim.voter_ids,
        "logEnd": None if end is None else {"offset": end.offset, "epoch": end.epoch},
        "highWatermark": claim.high_watermark,
        "reportedEnd": claim.reported_end,
        "reportedHighWatermark": claim.reported_high_watermark,
        "deniedTo": claim.denial,
        "refusedLogin": claim.refused_login,
        "isWitness": claim.is_witness,
        "contradicts": sorted(contradictions(situation, claim)),
    }
