"""Nodes that do not find the leader, because their list of bootstrap servers does not lead to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft_trio.diagnosis.finding import Finding, Severity, capitalized
from kraft_trio.diagnosis.quorum_situation import Claim, Situation, runs_nevertheless

KEY: Final = "`controller.quorum.bootstrap.servers`"


def looks_in_vain(situation: Situation, claim: Claim) -> bool:
    """Whether a node that is no voter answers, and knows no leader.  The leader does not look for it.

    A node that believes that it is a voter asks the other voters that it knows.
    """
    report = situation.report
    return (
        report is not None
        and claim.problem is None
        and claim.denial is None
        and claim.leader_id is None
        and not claim.is_broker
        and not claim.is_of_other_cluster
        and claim.node_id not in report.voter_ids
        and claim.node_id not in (claim.voter_ids or ())
    )


def no_way_to_leader(situation: Situation) -> Iterator[Finding]:
    for claim in situation.answers:
        if looks_in_vain(situation, claim):
            text = f"{capitalized(claim.name)} is no voter, and knows no leader. {_advice(situation, claim)}"
            yield Finding(Severity.WARNING, "no-way-to-leader", text)


def leads_nowhere(situation: Situation) -> bool:
    """Whether no controller answers at the servers that the file of a node of this machine names.

    Brokers answer, too, and lead nobody to the leader.
    """
    here = situation.here
    asked = {claim.endpoint: claim for claim in situation.claims}
    claims = [asked.get(server) for server in (() if here is None else here.bootstrap)]
    return bool(claims) and all(
        claim is not None and not runs_nevertheless(claim) and (claim.problem is not None or claim.is_broker)
        for claim in claims
    )


def wrong_list(situation: Situation) -> Iterator[Finding]:
    """A list that leads nowhere, though a leader was found: by the log on this machine, for example."""
    here = situation.here
    if here is None or not leads_nowhere(situation):
        return
    leading = [claim.endpoint for claim in situation.answers if not claim.is_broker]
    text = (
        f"No controller answers at the servers in {KEY} of {here.file}: {', '.join(here.bootstrap)}. By them, node "
        f"{here.node_id} does not find a new leader. Name those that answer, such as "
        f"`controller.quorum.bootstrap.servers={','.join(leading)}`, and restart it."
    )
    yield Finding(Severity.WARNING, "wrong-list", text)


def _advice(situation: Situation, claim: Claim) -> str:
    report = situation.report
    assert report is not None, "asked without a leader"
    found = next((one.endpoint for one in situation.answers if one.node_id == report.leader_id), None)
    leader = f"node {report.leader_id}" + ("" if found is None else f" at {found}")
    if claim.bootstrap is None:
        return f"It looks for {leader} at the servers in {KEY} of its file: name that node there, and restart it."
    knowing = [one.endpoint for one in situation.answers if report.leader_id in (one.leader_id, one.node_id)]
    if not set(claim.bootstrap) & set(knowing):
        named = ", ".join(claim.bootstrap) or "nobody"
        return (
            f"{KEY} in its file names {named}, which does not lead to {leader}: name that node there, and restart it."
        )
    return f"{KEY} in its file names who knows {leader}: it has just started, or the network between them fails."
