"""What is wrong with a quorum, and what to do, concluded from what each of its nodes claims."""

from __future__ import annotations

from kraft_trio.diagnosis.finding import Finding, Severity
from kraft_trio.diagnosis.findings.table import RULES
from kraft_trio.diagnosis.quorum_situation import Claim, Situation


def findings(situation: Situation) -> tuple[Finding, ...]:
    """What the rows of the table find, the most severe first.  If anything is critical, nothing is called ok."""
    found = [finding for rule in RULES if rule.when.holds(situation) for finding in rule.find(situation)]
    if any(finding.severity is Severity.CRITICAL for finding in found):
        found = [finding for finding in found if finding.severity is not Severity.OK]
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: -order.index(finding.severity)))


def contradictions(situation: Situation, claim: Claim) -> frozenset[str]:
    """In which of "epoch", "leader" and "voters" a node contradicts what holds in the highest epoch."""
    if claim.problem is not None:
        return frozenset()
    found = set()
    if claim.epoch is not None and claim.epoch != situation.epoch:
        found.add("epoch")
    if claim.leader_id != situation.leader_id and (claim.epoch is not None or situation.leader_id is not None):
        found.add("leader")
    if claim.voter_ids is not None and tuple(sorted(claim.voter_ids)) != situation.voter_ids:
        found.add("voters")
    return frozenset(found)
